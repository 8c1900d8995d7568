#pragma once
#include <ATen/core/Tensor.h>

#include "shapes/options.h"

namespace echelon {

/// Inverse frequencies of rotary positions, and the factor on cosines and sines, for model.rope_theta,
/// model.rope_scaling and model.partial_rotary_factor. The formulas are those of transformers'
/// modeling_rope_utils.py, in fp32 as there.
struct RotaryFrequencies {
  at::Tensor inverse;  ///< fp32 [rotary_size / 2]
  double factor = 1.0;
};
[[nodiscard]] RotaryFrequencies rotary_frequencies(const ModelOptions& model);

/// The rotary table of a model, with rows up to the longest sequence requested so far: a model's
/// max_positions can be a hundred times the sequences it is trained on. For one thread.
class RotaryTable {
 public:
  RotaryTable(const ModelOptions& model, at::ScalarType dtype, at::Device device);

  /// fp32 [>= positions, rotary_size]: cosines of the angles (half), then sines, rounded to the dtype.
  [[nodiscard]] const at::Tensor& rows(std::int64_t positions);

 private:
  RotaryFrequencies frequencies_;
  std::int64_t max_positions_;
  at::ScalarType dtype_;
  at::Device device_;
  at::Tensor table_;
};

}  // namespace echelon
