#pragma once
#include <optional>
#include <string>
#include <vector>

#include "model/layer.h"
#include "model/ops/ops.h"
#include "model/parts/adapter.h"
#include "shapes/shapes.h"

namespace echelon {

inline constexpr InitSpec kZeros{InitSpec::Kind::kConstant, 0.0F};
inline constexpr InitSpec kOnes{InitSpec::Kind::kConstant, 1.0F};
/// Normal distribution with mean 0.
[[nodiscard]] InitSpec normal(double deviation);

/// A matrix product with an optional bias and optional adapters. Belongs to a layer, and may only be used
/// within its run().
struct Linear {
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;  ///< null: none
  std::optional<Adapter> adapter = {};

  /// x [tokens, inputs] -> [tokens, outputs]; `x_again`: as in ops::linear. `draws`: for the adapters'
  /// dropout, and whether this is a training pass, which alone uses fp8: elsewhere a token's result would
  /// depend on the tokens beside it.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, const ops::Recompute& x_again = {},
                                   const Batch& draws = {}) const {
    const bool fp8 = weight->fp8 && draws.training && x.scalar_type() == at::kBFloat16;
    const at::Tensor y =
        fp8 ? ops::fp8_linear(x, *weight, x_again, bias) : ops::linear(x, *weight, x_again, bias);
    return adapter ? adapter->added_to(y, x, x_again, draws) : y;
  }
};

/// Adds `name`.weight to `layer`, and `name`.bias if `shapes` has one.
[[nodiscard]] Linear add_linear(Layer& layer, const std::string& name, const ShapeTable& shapes,
                                const InitSpec& weights, const InitSpec& biases = kZeros);

/// The tensors `names`[i].`kind`, as parts of one stacked parameter.
[[nodiscard]] std::vector<Parameter::Part> stacked(const std::vector<std::string>& names, const char* kind,
                                                   const ShapeTable& shapes);

/// Adds the products `names`, which have the same input, as one stacked product.
[[nodiscard]] Linear add_stacked(Layer& layer, const std::vector<std::string>& names,
                                 const ShapeTable& shapes, const InitSpec& weights);

}  // namespace echelon
