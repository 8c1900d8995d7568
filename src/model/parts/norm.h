#pragma once
#include "model/layer.h"
#include "model/ops/ops.h"
#include "shapes/shapes.h"

namespace echelon {

/// RMSNorm or LayerNorm as a layer of its own.
class Norm {
 public:
  /// Adds `layer`.weight and, of a LayerNorm, `layer`.bias. The model's shapes decide which norm it is: only
  /// a LayerNorm has a bias.
  Norm(Layer& layer, const ShapeTable& shapes, double eps);

  /// x [tokens, features], run as the norm's layer.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const;

  /// How backward gets forward(x) again when `block` recomputes cheap values; empty: it was kept.
  [[nodiscard]] ops::Recompute again(const Layer& block, const at::Tensor& x) const;

 private:
  const Layer* layer_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;  ///< null: RMSNorm
  double eps_;
};

}  // namespace echelon
