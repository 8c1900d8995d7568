#pragma once
#include <ATen/core/Tensor.h>

#include "shard/layout.h"

namespace echelon {

/// A rank's slice of matrices of fp8 products, in e4m3: what other ranks gather in training passes. The scale
/// of a matrix is that of the whole, as every rank of the group finds it: of the weights rounded to bf16, as
/// ops::fp8_scale() defines it. Not thread-safe.
class Fp8Slice {
 public:
  /// `slice`: this rank's master weights, [slice_numel]. `scales`: fp32 [parameters, 2], on the device that
  /// computes. All arguments must outlive this object.
  Fp8Slice(const FlatLayout& layout, int rank, const at::Tensor& slice, at::Tensor scales);

  /// Writes to the first column of `scales` the scales that the elements in this slice allow. The least of
  /// all ranks is that of the whole matrix. 0: a NaN or an infinity is among them.
  void measure();
  /// Writes the elements to `slot`, e4m3 [slice_numel], by the scales of whole matrices.
  void cast_to(const at::Tensor& slot) const;
  /// fp32 [2]: scale and 1 / scale of the matrix layout.parameters()[i].
  [[nodiscard]] at::Tensor scale(std::size_t i) const { return scales_[static_cast<std::int64_t>(i)]; }

 private:
  /// Elements [at, at + numel) of the slice are of this matrix.
  struct Piece {
    std::int64_t matrix;
    std::int64_t at;
    std::int64_t numel;
  };
  /// The slice in bf16, on the device that computes.
  [[nodiscard]] at::Tensor rounded() const;

  const at::Tensor& slice_;
  at::Tensor scales_;
  std::vector<Piece> pieces_;
};

}  // namespace echelon
