#include "checkpoint/format/boxes.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

namespace echelon::checkpoint {
namespace {

/// Flat numbers of a box's elements in row-major order.
void visit(const std::vector<std::uint64_t>& shape, const Box& box, std::size_t dim, std::uint64_t base,
           std::vector<std::uint64_t>& out) {
  if (dim == shape.size()) {
    out.push_back(base);
    return;
  }
  for (std::uint64_t i = 0; i < box.count[dim]; ++i)
    visit(shape, box, dim + 1, base * shape[dim] + box.start[dim] + i, out);
}

TEST(Boxes, AreTheFlatRangeInOrderForEveryRangeOfSeveralShapes) {
  const std::vector<std::vector<std::uint64_t>> shapes{{7}, {3, 5}, {1, 4}, {4, 1}, {2, 3, 4}, {2, 1, 3, 2}};
  for (const auto& shape : shapes) {
    const std::uint64_t n =
        std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
    for (std::uint64_t begin = 0; begin < n; ++begin) {
      for (std::uint64_t end = begin + 1; end <= n; ++end) {
        const std::vector<Box> boxes = boxes_of(shape, begin, end);
        EXPECT_LE(boxes.size(), 2 * shape.size() - 1);
        std::vector<std::uint64_t> numbers;
        for (const Box& box : boxes) visit(shape, box, 0, 0, numbers);
        std::vector<std::uint64_t> expected(end - begin);
        std::iota(expected.begin(), expected.end(), begin);
        ASSERT_EQ(numbers, expected) << begin << " to " << end;
      }
    }
  }
}

TEST(Boxes, WholeRowsAreOne) {
  EXPECT_EQ(boxes_of(std::vector<std::uint64_t>{8, 5, 3}, 15, 90).size(), 1U);
}

}  // namespace
}  // namespace echelon::checkpoint
