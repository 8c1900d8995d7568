#pragma once
#include "model/layer.h"
#include "model/ops/ops.h"

namespace echelon {

/// A weight with a bias, of a linear layer or of a norm, and the layer that holds them.
struct Affine {
  const Layer* layer = nullptr;
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;
};

/// Adds `name`.weight and `name`.bias (as long as the weight's first dimension) to `layer`.
[[nodiscard]] Affine add_affine(Layer& layer, const std::string& name,
                                const std::vector<std::int64_t>& weight, const InitSpec& weight_init,
                                const InitSpec& bias_init);
/// The same for a norm over `width` features: ones and zeros.
[[nodiscard]] Affine add_norm(Layer& layer, const std::string& name, std::int64_t width);

/// x [tokens, in] * weight^T + bias; `x_again` as ops::linear has it.
[[nodiscard]] at::Tensor linear(const Affine& affine, const at::Tensor& x,
                                const ops::Recompute& x_again = {});

/// Layer normalization over the last dimension (Ba et al.), run as norm.layer.
[[nodiscard]] at::Tensor layer_norm(const Affine& norm, const at::Tensor& x, double eps);

/// How the backward of `block` gets layer_norm(norm, x, eps) again when it recomputes cheap values; empty: it
/// was kept.
[[nodiscard]] ops::Recompute layer_norm_again(const Layer& block, const Affine& norm, const at::Tensor& x,
                                              double eps);

}  // namespace echelon
