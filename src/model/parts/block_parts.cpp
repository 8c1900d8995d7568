#include "model/parts/block_parts.h"

namespace echelon {

at::Tensor Attention::forward(const Layer& block, const at::Tensor& x, const Attend& attend,
                              const LayerInputs& others, const Batch& draws) const {
  LayerInputs inputs{norm.forward(x)};
  inputs.insert(inputs.end(), others.begin(), others.end());
  return layer->run(inputs, [this, attend, draws, again = norm.again(block, x)](const LayerInputs& given) {
    return out.forward(attend(in.forward(given.front(), again, draws), given), {}, draws);
  });
}

at::Tensor Mlp::forward(const Layer& block, const at::Tensor& x, const Activation& activation,
                        const Batch& draws) const {
  return layer->run(norm.forward(x), [this, &block, activation, draws,
                                      again = norm.again(block, x)](const at::Tensor& normed) {
    const at::Tensor projected = inner.forward(normed, again, draws);
    ops::Recompute activated_again;
    if (activation.recomputable && block.recomputes_cheap())
      activated_again = [run = activation.run, kept = projected.detach()] { return run(kept); };
    return outer.forward(activation.run(projected), activated_again, draws);
  });
}

}  // namespace echelon
