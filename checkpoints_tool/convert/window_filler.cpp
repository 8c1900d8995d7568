#include "checkpoints_tool/convert/window_filler.h"

#include <algorithm>
#include <cstring>

#include "base/checksum/crc32c.h"
#include "families/convert.h"

namespace echelon::tool {
namespace {

/// A rectangle of a matrix, row-major in memory, and its position in a tile.
struct Block {
  std::span<const std::byte> bytes;
  std::uint64_t row = 0;
  std::uint64_t rows = 0;
  std::uint64_t column = 0;
  std::uint64_t columns = 0;
};

/// Writes the block's elements to their places in the transpose of a tile of `height` rows. A few columns
/// at a time, so that the written cache lines stay in the cache from one row to the next.
template <class Element>
void scatter(const Block& block, std::uint64_t height, std::span<std::byte> out) {
  constexpr std::uint64_t kAtOnce = 64 / sizeof(Element);
  for (std::uint64_t first = 0; first < block.columns; first += kAtOnce) {
    const std::uint64_t last = std::min(block.columns, first + kAtOnce);
    for (std::uint64_t row = 0; row < block.rows; ++row) {
      const std::byte* from = block.bytes.data() + (row * block.columns + first) * sizeof(Element);
      for (std::uint64_t column = first; column < last; ++column, from += sizeof(Element)) {
        const std::uint64_t to = (block.column + column) * height + block.row + row;
        std::memcpy(out.data() + to * sizeof(Element), from, sizeof(Element));
      }
    }
  }
}

void scatter(std::size_t size, const Block& block, std::uint64_t height, std::span<std::byte> out) {
  switch (size) {
    case 1: return scatter<std::uint8_t>(block, height, out);
    case 2: return scatter<std::uint16_t>(block, height, out);
    case 4: return scatter<std::uint32_t>(block, height, out);
    default: return scatter<std::uint64_t>(block, height, out);
  }
}

}  // namespace

WindowRecord WindowFiller::fill(const OutputFile& file, const Window& window, std::span<std::byte> out) {
  WindowRecord record;
  std::uint64_t at = window.begin;
  const auto cover = [&](std::uint64_t end, auto&& fill_bytes) {
    const auto bytes = out.subspan(at - window.begin, end - at);
    const std::uint32_t crc = fill_bytes(bytes);
    record.crc = crc32c_combine(record.crc, crc, bytes.size());
    at = end;
  };
  const auto zeros = [](std::span<std::byte> bytes) {
    std::memset(bytes.data(), 0, bytes.size());
    return crc32c(bytes);
  };
  if (at < file.head.size()) {
    cover(std::min<std::uint64_t>(file.head.size(), window.end), [&](std::span<std::byte> bytes) {
      return crc32c_copy(bytes, std::span(file.head).subspan(window.begin, bytes.size()));
    });
  }
  for (const Part& part : parts_of(file, window)) {
    const std::uint64_t size = size_of(part.tensor->dtype);
    cover(part.tensor->offset + part.begin * size, zeros);
    cover(part.tensor->offset + part.end * size, [&](std::span<std::byte> bytes) {
      if (part.tensor->transposed) {
        record.parts.push_back(0);
        return zeros(bytes);
      }
      record.parts.push_back(fill_part(part, bytes));
      const bool as_it_is = part.tensor->dtype == part.tensor->source.dtype && !part.tensor->added;
      return as_it_is ? record.parts.back() : crc32c(bytes);
    });
  }
  cover(window.end, zeros);
  return record;
}

std::uint32_t WindowFiller::fill_part(const Part& part, std::span<std::byte> out) {
  const OutputTensor& tensor = *part.tensor;
  const DType source = tensor.source.dtype;
  if (!tensor.added && tensor.dtype == source) {
    source_.read(tensor.source.name, part.begin, part.end, out);
    return crc32c(out);
  }
  const std::uint64_t step = tensor.added ? kMergedElements : kScratchBytes / size_of(source);
  const std::uint64_t size = size_of(tensor.dtype);
  std::uint32_t crc = 0;
  for (std::uint64_t at = part.begin; at < part.end; at += step) {
    const std::uint64_t stop = std::min(part.end, at + step);
    const std::span<std::byte> to = out.subspan((at - part.begin) * size, (stop - at) * size);
    in_.resize((stop - at) * size_of(source));
    source_.read(tensor.source.name, at, stop, in_);
    crc = crc32c(in_, crc);
    if (!tensor.added) {
      families::convert(in_, source, to, tensor.dtype);
      continue;
    }
    sums_.resize(stop - at);
    families::convert(in_, source, std::as_writable_bytes(std::span(sums_)), DType::kF32);
    merged_.add(tensor, at, sums_);
    families::convert(std::as_bytes(std::span(sums_)), DType::kF32, to, tensor.dtype);
  }
  return crc;
}

std::span<const std::byte> WindowFiller::converted(const OutputTensor& tensor, std::uint64_t begin,
                                                   std::uint64_t end) {
  in_.resize((end - begin) * size_of(tensor.source.dtype));
  source_.read(tensor.source.name, begin, end, in_);
  if (tensor.dtype == tensor.source.dtype) return in_;
  converted_.resize((end - begin) * size_of(tensor.dtype));
  families::convert(in_, tensor.source.dtype, converted_, tensor.dtype);
  return converted_;
}

WindowRecord WindowFiller::fill(const Tile& tile, std::span<std::byte> out) {
  const OutputTensor& tensor = *tile.tensor;
  const auto width = static_cast<std::uint64_t>(tensor.source.shape.at(1));
  // Each read is contiguous: whole rows, or a part of one.
  const std::uint64_t room = kScratchBytes / size_of(tensor.source.dtype);
  const std::uint64_t columns = std::min(tile.columns, room);
  const std::uint64_t rows = columns == width ? room / width : 1;
  Block block;
  for (block.row = 0; block.row < tile.rows; block.row += rows) {
    block.rows = std::min(rows, tile.rows - block.row);
    for (block.column = 0; block.column < tile.columns; block.column += columns) {
      block.columns = std::min(columns, tile.columns - block.column);
      const std::uint64_t begin = (tile.row + block.row) * width + tile.column + block.column;
      block.bytes = converted(tensor, begin, begin + block.rows * block.columns);
      scatter(size_of(tensor.dtype), block, tile.rows, out);
    }
  }
  return {.crc = crc32c(out)};
}

}  // namespace echelon::tool
