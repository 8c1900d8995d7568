#pragma once
#include <string>
#include <vector>

#include "model/layer.h"
#include "model/ops/ops.h"
#include "shapes/shapes.h"

namespace echelon {

inline constexpr InitSpec kZeros{InitSpec::Kind::kConstant, 0.0F};
inline constexpr InitSpec kOnes{InitSpec::Kind::kConstant, 1.0F};
/// Of mean zero.
[[nodiscard]] InitSpec normal(double deviation);

/// A matrix product, with a bias or without. Belongs to a layer, inside of whose run() it is used.
struct Linear {
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;  ///< null: none

  /// x [tokens, inputs] -> [tokens, outputs]; `x_again` as ops::linear has it.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, const ops::Recompute& x_again = {}) const {
    return ops::linear(x, *weight, x_again, bias);
  }
};

/// Adds `name`.weight to `layer`, and `name`.bias where the model has one.
[[nodiscard]] Linear add_linear(Layer& layer, const std::string& name, const ShapeTable& shapes,
                                const InitSpec& weights, const InitSpec& biases = kZeros);

/// The tensors `names`[i].`kind`, to be stacked in one parameter.
[[nodiscard]] std::vector<Parameter::Part> stacked(const std::vector<std::string>& names, const char* kind,
                                                   const ShapeTable& shapes);

/// Adds the products `names`, which multiply the same input, as one.
[[nodiscard]] Linear add_stacked(Layer& layer, const std::vector<std::string>& names,
                                 const ShapeTable& shapes, const InitSpec& weights);

}  // namespace echelon
