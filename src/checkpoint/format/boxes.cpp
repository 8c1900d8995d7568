#include "checkpoint/format/boxes.h"

namespace echelon::checkpoint {
namespace {

/// Splits at each dimension into a ragged first row, whole rows, and a ragged last row.
class Splitter {
 public:
  explicit Splitter(std::span<const std::uint64_t> shape) : shape_(shape), row_elements_(shape.size(), 1) {
    for (std::size_t d = shape.size() - 1; d > 0; --d) row_elements_[d - 1] = row_elements_[d] * shape[d];
  }

  /// [begin, end) of what is left when the dimensions before `dim` are fixed to at_.
  void split(std::size_t dim, std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t row = row_elements_[dim];
    std::uint64_t first = begin / row;
    const std::uint64_t last = end / row;
    if (first == last) return inside(dim, first, begin % row, end % row);
    if (begin % row != 0) inside(dim, first++, begin % row, row);
    if (first < last) add(dim, first, last - first);
    inside(dim, last, 0, end % row);
  }

  std::vector<Box> boxes;

 private:
  void inside(std::size_t dim, std::uint64_t index, std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    at_.push_back(index);
    split(dim + 1, begin, end);
    at_.pop_back();
  }

  void add(std::size_t dim, std::uint64_t first, std::uint64_t count) {
    Box box{at_, std::vector<std::uint64_t>(at_.size(), 1)};
    box.start.push_back(first);
    box.count.push_back(count);
    for (std::size_t d = dim + 1; d < shape_.size(); ++d) {
      box.start.push_back(0);
      box.count.push_back(shape_[d]);
    }
    boxes.push_back(std::move(box));
  }

  std::span<const std::uint64_t> shape_;
  std::vector<std::uint64_t> row_elements_;  // from one index of a dimension to the next
  std::vector<std::uint64_t> at_;
};

}  // namespace

std::vector<Box> boxes_of(std::span<const std::uint64_t> shape, std::uint64_t begin, std::uint64_t end) {
  Splitter splitter(shape);
  splitter.split(0, begin, end);
  return splitter.boxes;
}

}  // namespace echelon::checkpoint
