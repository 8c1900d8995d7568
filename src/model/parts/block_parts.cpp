#include "model/parts/block_parts.h"

namespace echelon {
namespace {

at::Tensor normed(const std::optional<Norm>& norm, const at::Tensor& x) {
  return norm ? norm->forward(x) : x;
}

ops::Recompute normed_again(const std::optional<Norm>& norm, const Layer& block, const at::Tensor& x) {
  return norm ? norm->again(block, x) : ops::Recompute();
}

}  // namespace

at::Tensor Attention::forward(const Layer& block, const at::Tensor& x, const Attend& attend,
                              const LayerInputs& others, const Batch& draws) const {
  LayerInputs inputs{normed(norm, x)};
  inputs.insert(inputs.end(), others.begin(), others.end());
  return normed(norm_after, layer->run(inputs, [this, attend, draws, again = normed_again(norm, block, x)](
                                                   const LayerInputs& given) {
    return out.forward(attend(in.forward(given.front(), again, draws), given), {}, draws);
  }));
}

at::Tensor Mlp::forward(const Layer& block, const at::Tensor& x, const Activation& activation,
                        const Batch& draws) const {
  return normed(norm_after,
                layer->run(normed(norm, x), [this, &block, activation, draws,
                                             again = normed_again(norm, block, x)](const at::Tensor& in) {
                  const at::Tensor projected = inner.forward(in, again, draws);
                  ops::Recompute activated_again;
                  if (activation.recomputable && block.recomputes_cheap())
                    activated_again = [run = activation.run, kept = projected.detach()] { return run(kept); };
                  return outer.forward(activation.run(projected), activated_again, draws);
                }));
}

}  // namespace echelon
