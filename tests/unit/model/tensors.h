#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/model.h"
#include "support/unsharded.h"

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

/// Gradients of all parameters after backward(), taken away from them.
inline std::vector<at::Tensor> take_gradients(const Model& model) {
  std::vector<at::Tensor> gradients;
  for (const Parameter* parameter : model.parameters()) {
    gradients.push_back(parameter->value.grad());
    parameter->value.mutable_grad() = at::Tensor();
  }
  return gradients;
}

/// The scale that a loss is given multiplies every gradient.
inline void expect_scaled_gradients(Model& model, const Batch& batch, double tolerance) {
  model.loss(batch, 1.0).backward();
  const std::vector<at::Tensor> whole = take_gradients(model);
  model.loss(batch, 0.25).backward();
  const std::vector<at::Tensor> quarter = take_gradients(model);
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_LT(relative_error(quarter[i] * 4.0, whole[i]), tolerance)
        << model.parameters()[i]->parts().front().name;
}

/// A model with initial weights.
inline std::unique_ptr<Model> built(const ModelOptions& options) {
  auto model = build_model(options, at::kFloat, at::kCPU);
  materialize(*model, 3);
  return model;
}

}  // namespace echelon::test
