#include "window_filler.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "convert.h"

namespace echelon::tool {
namespace {

/// Copies columns of a row-major matrix into rows: elements [first, last) of row `row` are columns that go to
/// element column * rows + row of the output, of which `out` holds [out_begin, out_begin + out.size / size).
struct Scatter {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t out_begin = 0;
  std::uint64_t out_end = 0;
};

// `from`: source elements [begin, end).
template <class Element>
void scatter(const Scatter& matrix, std::uint64_t begin, std::uint64_t end, std::span<const std::byte> from,
             std::span<std::byte> out) {
  const std::uint64_t first_column = matrix.out_begin / matrix.rows;
  const std::uint64_t last_column = (matrix.out_end - 1) / matrix.rows;
  for (std::uint64_t row = begin / matrix.columns; row * matrix.columns < end; ++row) {
    const std::uint64_t row_begin = row * matrix.columns;
    const std::uint64_t stop = std::min(end, row_begin + last_column + 1);
    for (std::uint64_t at = std::max(begin, row_begin + first_column); at < stop; ++at) {
      const std::uint64_t to = (at - row_begin) * matrix.rows + row;
      if (to < matrix.out_begin || to >= matrix.out_end) continue;
      std::memcpy(out.data() + (to - matrix.out_begin) * sizeof(Element),
                  from.data() + (at - begin) * sizeof(Element), sizeof(Element));
    }
  }
}

void scatter(std::size_t size, const Scatter& matrix, std::uint64_t begin, std::uint64_t end,
             std::span<const std::byte> from, std::span<std::byte> out) {
  switch (size) {
    case 1:
      return scatter<std::uint8_t>(matrix, begin, end, from, out);
    case 2:
      return scatter<std::uint16_t>(matrix, begin, end, from, out);
    case 4:
      return scatter<std::uint32_t>(matrix, begin, end, from, out);
    default:
      return scatter<std::uint64_t>(matrix, begin, end, from, out);
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
      record.parts.push_back(fill_part(part, bytes));
      const bool as_it_is = !part.tensor->transposed && part.tensor->dtype == part.tensor->source.dtype;
      return as_it_is ? record.parts.back() : crc32c(bytes);
    });
  }
  cover(window.end, zeros);
  return record;
}

std::uint32_t WindowFiller::fill_part(const Part& part, std::span<std::byte> out) {
  if (part.tensor->transposed) {
    fill_transposed(part, out);
    return 0;
  }
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

void WindowFiller::fill_transposed(const Part& part, std::span<std::byte> out) {
  const OutputTensor& tensor = *part.tensor;
  const Scatter matrix{.rows = static_cast<std::uint64_t>(tensor.source.shape.at(0)),
                       .columns = static_cast<std::uint64_t>(tensor.source.shape.at(1)),
                       .out_begin = part.begin,
                       .out_end = part.end};
  const std::uint64_t elements = matrix.rows * matrix.columns;
  const std::uint64_t step = kScratchBytes / size_of(tensor.source.dtype);
  for (std::uint64_t at = 0; at < elements; at += step) {
    const std::uint64_t stop = std::min(elements, at + step);
    scatter(size_of(tensor.dtype), matrix, at, stop, converted(tensor, at, stop), out);
  }
}

}  // namespace echelon::tool
