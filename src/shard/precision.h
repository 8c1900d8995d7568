#pragma once
#include <c10/core/ScalarType.h>

#include "model/element_types.h"
#include "model/model.h"
#include "shard/options.h"

namespace echelon {

/// The element types that section `precision` resolves to.
struct Precision {
  at::ScalarType param = at::kFloat;  ///< weights and activations while computing
  /// Gradients sent between ranks, where narrower than what they are computed in.
  at::ScalarType reduce = at::kFloat;
  at::ScalarType buffer = at::kFloat;  ///< constant tables (rotary cos/sin) are rounded to it
  at::ScalarType output = at::kFloat;  ///< logits are rounded to it
  at::ScalarType master = at::kFloat;  ///< weights kept by each rank, which the optimizer updates
  at::ScalarType frozen = at::kFloat;  ///< those kept of units of which nothing is trained
  bool fp8 = false;                    ///< products of the blocks' matrices in training passes
  [[nodiscard]] ModelTypes types() const { return {buffer, output, fp8}; }
};

/// types_of() the section.
[[nodiscard]] Precision resolve(const PrecisionOptions& options);

/// Sets for this process what PyTorch's GPU libraries may round beyond the types of their inputs: the inputs
/// of fp32 products and convolutions to TF32, with `tf32`. Never partial sums of products of two-byte types.
void limit_rounding(const PrecisionOptions& options);

/// Throws Error(kUsage) for kUnset.
[[nodiscard]] at::ScalarType scalar_type(FloatType type);

}  // namespace echelon
