#include "model/parts/norm.h"

#include "model/parts/linear.h"
#include "shapes/llama_family.h"

namespace echelon {

InitSpec initial_norm(NormRounding rounding) {
  return rounding == NormRounding::kOncePlusOne ? kZeros : kOnes;
}

Norm::Norm(Layer& layer, const ShapeTable& shapes, const ModelOptions& model)
    : layer_(&layer), eps_(model.norm_eps), rounding_(norm_rounding(model)) {
  const Linear own = add_linear(layer, layer.name(), shapes, initial_norm(rounding_));
  weight_ = own.weight;
  bias_ = own.bias;
}

at::Tensor Norm::normed(const at::Tensor& x) const {
  return bias_ == nullptr ? ops::rms_norm(x, *weight_, eps_, rounding_)
                          : ops::layer_norm(x, *weight_, *bias_, eps_);
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  return layer_->run(x, [norm = *this](const at::Tensor& in) { return norm.normed(in); });
}

ops::SumAndNorm Norm::forward(const at::Tensor& x, const at::Tensor& added) const {
  if (bias_ == nullptr && !layer_->hooked()) return ops::add_rms_norm(x, added, *weight_, eps_, rounding_);
  const at::Tensor sum = added.defined() ? x + added : x;
  return {sum, forward(sum)};
}

ops::Recompute Norm::again(const Layer& block, const at::Tensor& x) const {
  // If the norm is a separate unit, its weights are not gathered when the backward of the product runs.
  if (!block.recomputes_cheap() || layer_->hooked()) return {};
  return [norm = *this, x = x.detach()] { return norm.normed(x); };
}

}  // namespace echelon
