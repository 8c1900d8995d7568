#pragma once
#include "model/layer.h"
#include "model/ops/ops.h"
#include "shapes/shapes.h"

namespace echelon {

/// The initial weight of a norm, with which it multiplies by 1.
[[nodiscard]] InitSpec initial_norm(NormRounding rounding);

/// RMSNorm or LayerNorm, as a separate layer.
class Norm {
 public:
  /// Adds `layer`.weight and, for a LayerNorm, `layer`.bias. It is a LayerNorm if `shapes` has the bias.
  Norm(Layer& layer, const ShapeTable& shapes, const ModelOptions& model);

  /// x [tokens, features] -> the same shape; runs within the norm's layer.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const;

  /// x + added, or x where `added` is undefined, and forward() of that. One operation if nothing is done
  /// around the norm's layer.
  [[nodiscard]] ops::SumAndNorm forward(const at::Tensor& x, const at::Tensor& added) const;

  /// Returns how backward recomputes forward(x) if `block` recomputes cheap values; empty: the value is kept.
  [[nodiscard]] ops::Recompute again(const Layer& block, const at::Tensor& x) const;

 private:
  [[nodiscard]] at::Tensor normed(const at::Tensor& x) const;

  const Layer* layer_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;  ///< null: RMSNorm
  double eps_;
  NormRounding rounding_;  ///< of RMSNorm
};

}  // namespace echelon
