#include "model/parts/norm.h"

#include "model/parts/linear.h"

namespace echelon {
namespace {

at::Tensor normed(const at::Tensor& x, Parameter& weight, Parameter* bias, double eps) {
  return bias == nullptr ? ops::rms_norm(x, weight, eps) : ops::layer_norm(x, weight, *bias, eps);
}

}  // namespace

Norm::Norm(Layer& layer, const ShapeTable& shapes, double eps) : layer_(&layer), eps_(eps) {
  const Linear own = add_linear(layer, layer.name(), shapes, kOnes);
  weight_ = own.weight;
  bias_ = own.bias;
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  return layer_->run(x, [weight = weight_, bias = bias_, eps = eps_](const at::Tensor& in) {
    return normed(in, *weight, bias, eps);
  });
}

ops::Recompute Norm::again(const Layer& block, const at::Tensor& x) const {
  // If the norm is a separate unit, its weights are not gathered when the backward of the product runs.
  if (!block.recomputes_cheap() || layer_->hooked()) return {};
  return
      [weight = weight_, bias = bias_, eps = eps_, x = x.detach()] { return normed(x, *weight, bias, eps); };
}

}  // namespace echelon
