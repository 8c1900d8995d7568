#include "model/affine.h"

#include <ATen/ATen.h>

namespace echelon {

Affine add_affine(Layer& layer, const std::string& name, const std::vector<std::int64_t>& weight,
                  const InitSpec& weight_init, const InitSpec& bias_init) {
  return {&layer, &layer.add(name + ".weight", weight, weight_init),
          &layer.add(name + ".bias", std::vector<std::int64_t>{weight.at(0)}, bias_init)};
}

Affine add_norm(Layer& layer, const std::string& name, std::int64_t width) {
  return add_affine(layer, name, {width}, {InitSpec::Kind::kConstant, 1.0F},
                    {InitSpec::Kind::kConstant, 0.0F});
}

at::Tensor linear(const Affine& affine, const at::Tensor& x, const ops::Recompute& x_again) {
  return ops::linear(x, *affine.weight, x_again) + ops::use(*affine.bias);
}

at::Tensor layer_norm(const Affine& norm, const at::Tensor& x, double eps) {
  return norm.layer->run(x, [norm, eps](const at::Tensor& in) {
    return at::layer_norm(in, norm.weight->shape(), ops::use(*norm.weight), ops::use(*norm.bias), eps);
  });
}

ops::Recompute layer_norm_again(const Layer& block, const Affine& norm, const at::Tensor& x, double eps) {
  // A norm gathered on its own has no weights when the product's backward runs.
  if (!block.recomputes_cheap() || norm.layer->hooked()) return {};
  return [norm, eps, x = x.detach()] {
    return at::layer_norm(x, norm.weight->shape(), norm.weight->value, norm.bias->value, eps);
  };
}

}  // namespace echelon
