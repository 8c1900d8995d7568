#include "shard/layout.h"

#include <algorithm>

namespace echelon {
namespace {

/// Elements. Slices then start at a multiple of 64 bytes, a cache line, in every element type.
constexpr std::int64_t kSliceMultiple = 64;
/// 16 bytes, the widest access of a kernel, hold 8 elements of the narrowest type.
constexpr std::int64_t kAligned = 8;

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

std::vector<const Parameter::Part*> parts_of(const std::vector<Parameter*>& parameters) {
  std::vector<const Parameter::Part*> parts;
  for (const Parameter* parameter : parameters) {
    for (const Parameter::Part& part : parameter->parts()) parts.push_back(&part);
  }
  return parts;
}

FlatLayout::FlatLayout(std::vector<Parameter*> parameters, int ranks)
    : parameters_(std::move(parameters)), ranks_(ranks) {
  std::stable_partition(parameters_.begin(), parameters_.end(),
                        [](const Parameter* parameter) { return parameter->numel() % kAligned == 0; });
  for (const Parameter* parameter : parameters_) {
    offsets_.push_back(numel_);
    numel_ += parameter->numel();
  }
  slice_numel_ = round_up((numel_ + ranks - 1) / ranks, kSliceMultiple);
}

std::vector<SlicePiece> FlatLayout::pieces(int rank) const {
  std::vector<SlicePiece> found;
  const std::int64_t slice_begin = rank * slice_numel_;
  const std::int64_t slice_end = slice_begin + slice_numel_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    std::int64_t part_begin = offsets_[i];
    for (const Parameter::Part& part : parameters_[i]->parts()) {
      const std::int64_t part_end = part_begin + part.numel();
      const std::int64_t begin = std::max(part_begin, slice_begin);
      const std::int64_t end = std::min(part_end, slice_end);
      if (begin < end) {
        found.push_back({&part, parameters_[i], begin - part_begin, end - part_begin, begin - slice_begin});
      }
      part_begin = part_end;
    }
  }
  return found;
}

std::vector<SlicePiece> packed(const std::vector<SlicePiece>& pieces,
                               const std::function<bool(const Parameter::Part&)>& chosen) {
  std::vector<SlicePiece> picked;
  std::int64_t at = 0;
  for (SlicePiece piece : pieces) {
    if (!chosen(*piece.part)) continue;
    piece.at = at;
    at += piece.numel();
    picked.push_back(piece);
  }
  return picked;
}

}  // namespace echelon
