// Reader::read_many beside Reader::read: the same bytes, whatever is asked for together.
#include <gtest/gtest.h>

#include "support/in_temp_dir.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

/// Some elements of one tensor, and where they are to go.
struct Wanted {
  TensorInfo tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<std::byte> out;

  Wanted(TensorInfo what, std::uint64_t from, std::uint64_t to)
      : tensor(std::move(what)), begin(from), end(to), out((to - from) * size_of(tensor.dtype)) {}
  [[nodiscard]] bool right() const {
    const auto whole = content_of(tensor);
    const std::size_t at = begin * size_of(tensor.dtype);
    return std::equal(out.begin(), out.end(), whole.begin() + static_cast<std::ptrdiff_t>(at));
  }
};

void expect_right(const Reader& reader, std::vector<Wanted>& wanted) {
  std::vector<Reader::Request> requests;
  for (Wanted& one : wanted) requests.push_back({one.tensor.name, one.begin, one.end, one.out});
  reader.read_many(requests);
  for (const Wanted& one : wanted)
    EXPECT_TRUE(one.right()) << one.tensor.name << ' ' << one.begin << " to " << one.end;
}

class BulkRead : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, BulkRead, testing::Values(1, 2, 4));

TEST_P(BulkRead, GivesAnyRangesThatAreAskedForTogether) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const TempDir dir;
    const Example example{.ranks = GetParam(), .cut = random_cut(seed)};
    const Reader reader(save(dir.path(), example));
    std::mt19937_64 random(seed);
    std::vector<Wanted> wanted;
    for (int i = 0; i < 60; ++i) {
      const TensorInfo& tensor = example.tensors[random() % example.tensors.size()];
      const std::uint64_t n = element_count(tensor);
      std::uint64_t begin = random() % (n + 1);
      std::uint64_t end = random() % 4 == 0 ? std::min(n, begin + 3) : random() % (n + 1);
      if (begin > end) std::swap(begin, end);
      wanted.emplace_back(tensor, begin, end);
    }
    expect_right(reader, wanted);
  }
}

using BulkReadOverlaps = InTempDir;
TEST_F(BulkReadOverlaps, AreGivenToEveryoneWhoWantsThem) {
  const Example example{.ranks = 2};
  const Reader reader(save(dir.path(), example));
  const TensorInfo big{"model/big", DType::kF32, {700, 1000}};
  const std::uint64_t block = 16384;  // elements
  std::vector<Wanted> wanted;
  wanted.emplace_back(big, 0, 700000);             // everything,
  wanted.emplace_back(big, 10, 20);                // a little of its beginning,
  wanted.emplace_back(big, 10, 20);                // that once more,
  wanted.emplace_back(big, 30, 5 * block + 1);     // some blocks,
  wanted.emplace_back(big, 3 * block, 4 * block);  // one of them,
  wanted.emplace_back(big, 349990, 350010);        // both ranks,
  wanted.emplace_back(big, 699999, 700000);        // the end,
  wanted.emplace_back(big, 5, 5);                  // and nothing
  expect_right(reader, wanted);
}

TEST_F(BulkReadOverlaps, RefusesARangeOrBufferThatDoesNotFit) {
  const Reader reader(save(dir.path()));
  std::vector<std::byte> four(4);
  const auto error = [&](const char* tensor, std::uint64_t begin, std::uint64_t end) {
    const std::vector<Reader::Request> requests{{tensor, begin, end, four}};
    return error_of([&] { reader.read_many(requests); });
  };
  EXPECT_NE(error("model/model.norm.weight", 33, 34), "");
  EXPECT_NE(error("model/model.norm.weight", 0, 2), "");
  EXPECT_NE(error("model/absent", 0, 1), "");
  EXPECT_EQ(error("model/model.norm.weight", 32, 33), "");
}

}  // namespace
}  // namespace echelon::checkpoint
