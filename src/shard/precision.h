#pragma once
#include <c10/core/ScalarType.h>

#include <string>

#include "base/dtype.h"
#include "model/model.h"
#include "shard/options.h"

namespace echelon {

/// What the keys of section `precision` come to.
struct Precision {
  at::ScalarType param = at::kFloat;   ///< weights and activations while computing
  at::ScalarType reduce = at::kFloat;  ///< gradients on their way between ranks
  at::ScalarType buffer = at::kFloat;  ///< constant tables are rounded to it
  at::ScalarType output = at::kFloat;  ///< logits are rounded to it
  at::ScalarType master = at::kFloat;  ///< weights that persist
  [[nodiscard]] ModelTypes types() const { return {buffer, output}; }
};

/// A key that is set overrides the preset; what neither states is not cast: gradients, tables and outputs
/// stay in `param`, and that and the master weights in fp32.
[[nodiscard]] Precision resolve(const PrecisionOptions& options);

/// Throws Error(kUsage) for an unset one.
[[nodiscard]] at::ScalarType scalar_type(FloatType type);
[[nodiscard]] DType dtype_of(at::ScalarType type);
/// "bf16", ...: the spelling used in recipes.
[[nodiscard]] std::string precision_name(at::ScalarType type);

}  // namespace echelon
