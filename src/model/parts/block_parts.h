#pragma once
#include <functional>

#include "model/parts/linear.h"
#include "model/parts/norm.h"

/// The two halves of a transformer block with its norms in front. forward() returns what is added to the
/// residual stream. `block`: the layer of the whole block, which decides what is recomputed in backward. A
/// part lives as long as its model.
namespace echelon {

/// Projections [tokens, width of queries, keys and values] -> [tokens, width of all heads]. `inputs`: those
/// of the attention's layer: first the normed hidden states.
using Attend = std::function<at::Tensor(const at::Tensor& projected, const LayerInputs& inputs)>;

/// out(attend(in(norm(x)))).
struct Attention {
  const Layer* layer;
  Norm norm;
  Linear in;  ///< queries, keys and values; of an attention to another sequence: queries
  Linear out;

  /// `others`: what `attend` needs besides, where that needs a gradient.
  [[nodiscard]] at::Tensor forward(const Layer& block, const at::Tensor& x, const Attend& attend,
                                   const LayerInputs& others = {}) const;
};

struct Activation {
  std::function<at::Tensor(const at::Tensor& projected)> run;
  /// May backward run it again rather than keep its result? Not worth it where the result alone is kept.
  bool recomputable = true;
};

/// Feed-forward: outer(activation(inner(norm(x)))).
struct Mlp {
  const Layer* layer;
  Norm norm;
  Linear inner;
  Linear outer;

  [[nodiscard]] at::Tensor forward(const Layer& block, const at::Tensor& x,
                                   const Activation& activation) const;
};

}  // namespace echelon
