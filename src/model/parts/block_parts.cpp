#include "model/parts/block_parts.h"

namespace echelon {

at::Tensor Attention::forward(const Layer& block, const at::Tensor& x, const Attend& attend,
                              const LayerInputs& others) const {
  LayerInputs inputs{norm.forward(x)};
  inputs.insert(inputs.end(), others.begin(), others.end());
  return layer->run(inputs, [this, attend, again = norm.again(block, x)](const LayerInputs& given) {
    return out.forward(attend(in.forward(given.front(), again), given));
  });
}

at::Tensor Mlp::forward(const Layer& block, const at::Tensor& x, const Activation& activation) const {
  return layer->run(
      norm.forward(x), [this, &block, activation, again = norm.again(block, x)](const at::Tensor& normed) {
        const at::Tensor projected = inner.forward(normed, again);
        ops::Recompute activated_again;
        if (activation.recomputable && block.recomputes_cheap())
          activated_again = [run = activation.run, kept = projected.detach()] { return run(kept); };
        return outer.forward(activation.run(projected), activated_again);
      });
}

}  // namespace echelon
