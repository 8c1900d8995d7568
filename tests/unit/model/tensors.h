#pragma once
#include <ATen/ATen.h>

#include "model/model.h"

/// Shared by the tests of operations and models.
namespace echelon::test {

/// Norm of the difference over the norm of what is right; NaN counts as infinitely wrong.
inline double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  if (actual.sizes() != expected.sizes()) return INFINITY;
  const at::Tensor right = expected.detach().to(at::kDouble);
  const double error =
      ((actual.detach().to(at::kDouble) - right).norm() / right.norm().clamp_min(1e-300)).item<double>();
  return std::isnan(error) ? INFINITY : error;
}

/// Gives a gradient its place as the sharding engine does: memory full of NaNs, which the first gradient must
/// overwrite and the next ones add to.
class MemorySink final : public GradientSink {
 public:
  void open(Parameter& parameter) override {
    if (!parameter.gradient.defined())
      parameter.gradient = at::full(parameter.shape(), NAN, parameter.value.detach().options());
    ++opened;
  }
  int opened = 0;
};

/// A model with initial weights.
inline std::unique_ptr<Model> built(const ModelOptions& options) {
  auto model = build_model(options, at::kFloat, at::kCPU);
  materialize(*model, 3, at::kFloat, at::kCPU);
  return model;
}

}  // namespace echelon::test
