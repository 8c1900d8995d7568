#include "window_filler.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "convert.h"

namespace echelon::tool {
namespace {

/// Puts source elements [begin, end), which belong to the tile, where they stand in the tile's transpose.
template <class Element>
void scatter(const Tile& tile, std::uint64_t begin, std::uint64_t end, std::span<const std::byte> from,
             std::span<std::byte> out) {
  const auto width = static_cast<std::uint64_t>(tile.tensor->source.shape.at(1));
  const std::byte* element = from.data();
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t row = at / width;
    const std::uint64_t stop = std::min(end, (row + 1) * width);
    for (; at < stop; ++at, element += sizeof(Element)) {
      const std::uint64_t to = (at - row * width - tile.column) * tile.rows + row - tile.row;
      std::memcpy(out.data() + to * sizeof(Element), element, sizeof(Element));
    }
  }
}

void scatter(const Tile& tile, std::uint64_t begin, std::uint64_t end, std::span<const std::byte> from,
             std::span<std::byte> out) {
  switch (size_of(tile.tensor->dtype)) {
    case 1:
      return scatter<std::uint8_t>(tile, begin, end, from, out);
    case 2:
      return scatter<std::uint16_t>(tile, begin, end, from, out);
    case 4:
      return scatter<std::uint32_t>(tile, begin, end, from, out);
    default:
      return scatter<std::uint64_t>(tile, begin, end, from, out);
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
      const bool as_it_is = part.tensor->dtype == part.tensor->source.dtype;
      return as_it_is ? record.parts.back() : crc32c(bytes);
    });
  }
  cover(window.end, zeros);
  return record;
}

std::uint32_t WindowFiller::fill_part(const Part& part, std::span<std::byte> out) {
  if (part.tensor->dtype != part.tensor->source.dtype) return fill_converted(part, out);
  reader_.read(part.tensor->source.name, part.begin, part.end, out);
  return crc32c(out);
}

std::uint32_t WindowFiller::fill_converted(const Part& part, std::span<std::byte> out) {
  const std::uint64_t step = kScratchBytes / size_of(part.tensor->source.dtype);
  const std::uint64_t size = size_of(part.tensor->dtype);
  std::uint32_t crc = 0;
  for (std::uint64_t at = part.begin; at < part.end; at += step) {
    const std::uint64_t stop = std::min(part.end, at + step);
    in_.resize((stop - at) * size_of(part.tensor->source.dtype));
    reader_.read(part.tensor->source.name, at, stop, in_);
    crc = crc32c(in_, crc);
    convert(in_, part.tensor->source.dtype, out.subspan((at - part.begin) * size, (stop - at) * size),
            part.tensor->dtype);
  }
  return crc;
}

std::span<const std::byte> WindowFiller::converted(const OutputTensor& tensor, std::uint64_t begin,
                                                   std::uint64_t end) {
  in_.resize((end - begin) * size_of(tensor.source.dtype));
  reader_.read(tensor.source.name, begin, end, in_);
  if (tensor.dtype == tensor.source.dtype) return in_;
  converted_.resize((end - begin) * size_of(tensor.dtype));
  convert(in_, tensor.source.dtype, converted_, tensor.dtype);
  return converted_;
}

WindowRecord WindowFiller::fill(const Tile& tile, std::span<std::byte> out) {
  const OutputTensor& tensor = *tile.tensor;
  const auto width = static_cast<std::uint64_t>(tensor.source.shape.at(1));
  const bool whole_rows = tile.columns == width;
  const std::uint64_t stretch = whole_rows ? tile.rows * width : tile.columns;
  const std::uint64_t step = kScratchBytes / size_of(tensor.source.dtype);
  for (std::uint64_t row = tile.row; row < tile.row + tile.rows; row += whole_rows ? tile.rows : 1) {
    const std::uint64_t begin = row * width + tile.column;
    const std::uint64_t end = begin + stretch;
    for (std::uint64_t at = begin; at < end; at += step) {
      const std::uint64_t stop = std::min(end, at + step);
      scatter(tile, at, stop, converted(tensor, at, stop), out);
    }
  }
  return {.crc = crc32c(out)};
}

}  // namespace echelon::tool
