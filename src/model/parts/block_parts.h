#pragma once
#include <functional>
#include <optional>
#include <utility>

#include "model/parts/linear.h"
#include "model/parts/norm.h"

/// The two halves of a transformer block. forward() returns what the caller adds to the residual stream.
/// `block`: the layer of the whole block, which decides what is recomputed in backward. A part must live as
/// long as its model.
namespace echelon {

/// The residual stream of a block, [tokens, features]. An addition waits for what reads the stream next,
/// because an RMSNorm makes the sum in the same pass, and adds both gradients in one.
class Residual {
 public:
  explicit Residual(at::Tensor x) : x_(std::move(x)) {}

  /// Adds factor * y.
  void add(const at::Tensor& y, double factor = 1);
  [[nodiscard]] const at::Tensor& value();
  /// The norm of the stream; without a norm the stream.
  [[nodiscard]] at::Tensor normed(const std::optional<Norm>& norm);

 private:
  at::Tensor x_;
  at::Tensor added_;  ///< undefined: the stream is x_
};

/// Projections [tokens, width of queries, keys and values] -> [tokens, width of all heads]. `inputs`: the
/// inputs of the attention's layer, first the normalized hidden states.
using Attend = std::function<at::Tensor(const at::Tensor& projected, const LayerInputs& inputs)>;

/// norm_after(out(attend(in(norm(stream))))), with the norms that there are.
struct Attention {
  const Layer* layer;
  std::optional<Norm> norm;
  Linear in;  ///< queries, keys and values; in cross-attention only queries
  Linear out;
  std::optional<Norm> norm_after = {};

  /// `others`: further inputs of `attend` that need a gradient. `draws`: for the adapters' dropout.
  [[nodiscard]] at::Tensor forward(const Layer& block, Residual& stream, const Attend& attend,
                                   const LayerInputs& others = {}, const Batch& draws = {}) const;
};

struct Activation {
  std::function<at::Tensor(const at::Tensor& projected)> run;
  /// Backward may run it again instead of keeping its result. False if its backward keeps the result anyway.
  bool recomputable = true;
};

/// Feed-forward: norm_after(outer(activation(inner(norm(stream))))), with the norms that there are.
struct Mlp {
  const Layer* layer;
  std::optional<Norm> norm;
  Linear inner;
  Linear outer;
  std::optional<Norm> norm_after = {};

  /// `draws`: for the adapters' dropout.
  [[nodiscard]] at::Tensor forward(const Layer& block, Residual& stream, const Activation& activation,
                                   const Batch& draws = {}) const;
};

}  // namespace echelon
