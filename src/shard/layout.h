#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/parameter.h"

/// Pure arithmetic of flat sharding: no storage, no ranks talking.
namespace echelon {

/// Elements of one named tensor that lie in one rank's slice.
struct SlicePiece {
  const Parameter::Part* part = nullptr;
  const Parameter* parameter = nullptr;
  std::int64_t begin = 0;  ///< [begin, end) of the flattened tensor
  std::int64_t end = 0;
  std::int64_t at = 0;  ///< where they start in the slice
};

/// Parameters laid one after another in a flat buffer of size() * slice_numel() elements, padded at the end;
/// rank r owns elements [r, r + 1) * slice_numel(). Slice borders may cut a parameter anywhere. Those of odd
/// sizes (a bias of ten classes) come last, so that all others begin where the widest accesses may: at 16
/// bytes in every type.
class FlatLayout {
 public:
  FlatLayout(std::vector<Parameter*> parameters, int ranks);

  /// In the order in which they lie.
  [[nodiscard]] const std::vector<Parameter*>& parameters() const { return parameters_; }
  [[nodiscard]] std::int64_t offset(std::size_t parameter) const { return offsets_[parameter]; }
  [[nodiscard]] std::int64_t numel() const { return numel_; }  ///< without padding
  [[nodiscard]] std::int64_t slice_numel() const { return slice_numel_; }
  [[nodiscard]] std::int64_t padded_numel() const { return slice_numel_ * ranks_; }

  /// What rank `rank` holds, in order; the rest of its slice is padding.
  [[nodiscard]] std::vector<SlicePiece> pieces(int rank) const;

 private:
  std::vector<Parameter*> parameters_;
  std::vector<std::int64_t> offsets_;
  std::int64_t numel_ = 0;
  std::int64_t slice_numel_ = 0;
  int ranks_;
};

}  // namespace echelon
