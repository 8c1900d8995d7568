#include "shard/fp8/fp8_slice.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "model/ops/products/fp8_matrix.h"
#include "shard/memory/cast.h"

namespace echelon {
namespace {

/// The elements in rows, of which a kernel casts several at once. Borders of slices and of matrices are
/// multiples of 64.
at::Tensor in_rows(const at::Tensor& elements) {
  return elements.view({-1, 64});
}

}  // namespace

Fp8Slice::Fp8Slice(const FlatLayout& layout, int rank, const at::Tensor& slice, at::Tensor scales)
    : slice_(slice), scales_(std::move(scales)) {
  const std::int64_t begin = rank * layout.slice_numel();
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const std::int64_t first = std::max(layout.offset(i), begin);
    const std::int64_t end =
        std::min(layout.offset(i) + layout.parameters()[i]->numel(), begin + layout.slice_numel());
    if (first < end) pieces_.push_back({static_cast<std::int64_t>(i), first - begin, end - first});
  }
}

at::Tensor Fp8Slice::rounded() const {
  at::Tensor result = at::empty(slice_.sizes(), scales_.options().dtype(at::kBFloat16));
  cast_into(slice_, result);
  return result;
}

void Fp8Slice::measure() {
  const at::Tensor values = rounded();
  at::Tensor found = scales_.select(1, 0).fill_(std::numeric_limits<float>::infinity());
  for (const Piece& piece : pieces_)
    ops::fp8_scale_into(values.narrow(0, piece.at, piece.numel), ops::kFp8Values, scales_[piece.matrix]);
  // A reduction to the least may pass over a NaN.
  found.nan_to_num_(0, std::numeric_limits<float>::infinity());
}

void Fp8Slice::cast_to(const at::Tensor& slot) const {
  const at::Tensor values = rounded();
  for (const Piece& piece : pieces_)
    ops::fp8_cast_into(in_rows(values.narrow(0, piece.at, piece.numel)), scales_[piece.matrix],
                       in_rows(slot.narrow(0, piece.at, piece.numel)), {});
}

}  // namespace echelon
