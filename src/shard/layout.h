#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "model/parameter.h"

/// Arithmetic of flat sharding, without storage or communication.
namespace echelon {

/// The parts of all parameters, in order.
[[nodiscard]] std::vector<const Parameter::Part*> parts_of(const std::vector<Parameter*>& parameters);

/// Elements of one named tensor that lie in one rank's slice.
struct SlicePiece {
  const Parameter::Part* part = nullptr;
  const Parameter* parameter = nullptr;
  std::int64_t begin = 0;  ///< [begin, end) of the flattened tensor
  std::int64_t end = 0;
  std::int64_t at = 0;  ///< offset of the first one in the slice
  [[nodiscard]] std::int64_t numel() const { return end - begin; }
};

/// Returns the pieces of which `chosen` picks the tensor, one after another: their places in a buffer that
/// holds only those.
[[nodiscard]] std::vector<SlicePiece> packed(const std::vector<SlicePiece>& pieces,
                                             const std::function<bool(const Parameter::Part&)>& chosen);

/// Parameters one after another in a flat buffer of ranks * slice_numel() elements, padded at the end
/// (FSDP1's FlatParameter). Rank r owns elements [r * slice_numel(), (r + 1) * slice_numel()). Slice borders
/// may cut a parameter anywhere. Parameters whose size is no multiple of 8 elements (a bias of ten classes)
/// come last, so all others start at a multiple of 16 bytes in every type.
class FlatLayout {
 public:
  /// The parameters must outlive this object. `ranks`: size of the shard group.
  FlatLayout(std::vector<Parameter*> parameters, int ranks);

  /// The parameters in buffer order, which may differ from the constructor's order.
  [[nodiscard]] const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// First element of parameters()[parameter] in the buffer.
  [[nodiscard]] std::int64_t offset(std::size_t parameter) const { return offsets_[parameter]; }
  [[nodiscard]] std::int64_t numel() const { return numel_; }  ///< without padding
  [[nodiscard]] std::int64_t slice_numel() const { return slice_numel_; }
  [[nodiscard]] std::int64_t padded_numel() const { return slice_numel_ * ranks_; }

  /// The pieces in the slice of `rank`, by rising offset; the rest of the slice is padding.
  [[nodiscard]] std::vector<SlicePiece> pieces(int rank) const;

 private:
  std::vector<Parameter*> parameters_;
  std::vector<std::int64_t> offsets_;
  std::int64_t numel_ = 0;
  std::int64_t slice_numel_ = 0;
  int ranks_;
};

}  // namespace echelon
