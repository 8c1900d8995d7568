#include "families/transposed_read.h"

#include <algorithm>
#include <cstring>

namespace echelon::families {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;
/// Whole rows are read if at least one of this many elements is wanted: few long reads are faster than many
/// short ones.
constexpr std::uint64_t kWorthSkipping = 16;

/// Rows of a matrix, from column `column` of row `row` on, as they lie in memory.
struct Block {
  std::span<const std::byte> bytes;
  std::uint64_t row = 0;
  std::uint64_t rows = 0;
  std::uint64_t stride = 0;  ///< elements from one row to the next
  std::uint64_t column = 0;
  std::uint64_t columns = 0;  ///< wanted of each
};

/// Puts the block's elements where they are in the stretch `to`, which begins at element `begin` of a
/// transpose with rows of `width` elements. Column after column: each is one run in `to`.
template <class Element>
void scatter(const Block& block, std::uint64_t width, std::uint64_t begin, std::span<std::byte> to) {
  const std::uint64_t end = begin + to.size() / sizeof(Element);
  for (std::uint64_t column = 0; column < block.columns; ++column) {
    const std::uint64_t run = (block.column + column) * width + block.row;
    const std::uint64_t first = run < begin ? std::min(begin - run, block.rows) : 0;
    const std::uint64_t last = end > run ? std::min(end - run, block.rows) : 0;
    for (std::uint64_t row = first; row < last; ++row) {
      std::memcpy(to.data() + (run + row - begin) * sizeof(Element),
                  block.bytes.data() + (row * block.stride + column) * sizeof(Element), sizeof(Element));
    }
  }
}

void scatter(std::uint64_t size, const Block& block, std::uint64_t width, std::uint64_t begin,
             std::span<std::byte> to) {
  if (size == 2) return scatter<std::uint16_t>(block, width, begin, to);
  if (size == 4) return scatter<std::uint32_t>(block, width, begin, to);
  scatter<std::uint64_t>(block, width, begin, to);
}

}  // namespace

void TransposedRead::operator()(const SourceTensor& matrix, std::uint64_t begin, std::span<std::byte> to) {
  const std::uint64_t size = size_of(matrix.info.dtype);
  while (!to.empty()) {
    const bool held =
        held_of_ == &matrix && begin >= held_begin_ && (begin - held_begin_) * size < held_.size();
    if (!held) read_ahead(matrix, begin);
    const auto from = std::span(held_).subspan((begin - held_begin_) * size);
    const std::size_t bytes = std::min(from.size(), to.size());
    std::memcpy(to.data(), from.data(), bytes);
    to = to.subspan(bytes);
    begin += bytes / size;
  }
}

void TransposedRead::read_ahead(const SourceTensor& matrix, std::uint64_t begin) {
  const std::uint64_t size = size_of(matrix.info.dtype);
  held_of_ = nullptr;  // invalid until the read succeeds
  held_.resize(std::min(ahead_ / size * size, matrix.bytes - begin * size));
  gather(matrix, begin, held_);
  held_of_ = &matrix;
  held_begin_ = begin;
}

void TransposedRead::gather(const SourceTensor& matrix, std::uint64_t begin, std::span<std::byte> to) {
  const auto rows = static_cast<std::uint64_t>(matrix.info.shape.at(0));
  const auto columns = static_cast<std::uint64_t>(matrix.info.shape.at(1));
  const std::uint64_t size = size_of(matrix.info.dtype);
  const std::uint64_t count = to.size() / size;
  const std::uint64_t first = begin / rows;
  const std::uint64_t wanted = (begin + count - 1) / rows - first + 1;
  if (wanted > 1 && count < rows) {  // the ends of two columns: the elements between them are not read
    const std::uint64_t here = ((first + 1) * rows - begin) * size;
    gather(matrix, begin, to.first(here));
    return gather(matrix, (first + 1) * rows, to.subspan(here));
  }
  const std::uint64_t first_row = wanted == 1 ? begin % rows : 0;
  const std::uint64_t end_row = wanted == 1 ? first_row + count : rows;
  // Several rows in one read only if whole rows are read; otherwise one short read for each row.
  const bool whole = wanted * kWorthSkipping >= columns;
  const std::uint64_t step = whole ? std::max<std::uint64_t>(1, kBlockBytes / (columns * size)) : 1;
  for (std::uint64_t row = first_row; row < end_row; row += step) {
    const std::uint64_t here = std::min(step, end_row - row);
    block_.resize(((here - 1) * columns + wanted) * size);
    source_.read(matrix, (row * columns + first) * size, block_);
    scatter(size, {block_, row, here, columns, first, wanted}, rows, begin, to);
  }
}

}  // namespace echelon::families
