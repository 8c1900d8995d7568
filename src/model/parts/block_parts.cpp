#include "model/parts/block_parts.h"

#include <ATen/ATen.h>

namespace echelon {
namespace {

at::Tensor normed(const std::optional<Norm>& norm, const at::Tensor& x) {
  return norm ? norm->forward(x) : x;
}

/// How backward recomputes what `norm` made of the stream.
ops::Recompute normed_again(const std::optional<Norm>& norm, const Layer& block, Residual& stream) {
  return norm ? norm->again(block, stream.value()) : ops::Recompute();
}

}  // namespace

void Residual::add(const at::Tensor& y, double factor) {
  if (factor == 1) {
    x_ = value();
    added_ = y;
  } else {
    x_ = at::add(value(), y, factor);
  }
}

const at::Tensor& Residual::value() {
  if (added_.defined()) x_ = x_ + std::exchange(added_, {});
  return x_;
}

at::Tensor Residual::normed(const std::optional<Norm>& norm) {
  if (!norm) return value();
  auto [sum, result] = norm->forward(x_, std::exchange(added_, {}));
  x_ = std::move(sum);
  return result;
}

at::Tensor Attention::forward(const Layer& block, Residual& stream, const Attend& attend,
                              const LayerInputs& others, const Batch& draws) const {
  LayerInputs inputs{stream.normed(norm)};
  inputs.insert(inputs.end(), others.begin(), others.end());
  const auto run = [this, attend, draws,
                    again = normed_again(norm, block, stream)](const LayerInputs& given) {
    return out.forward(attend(in.forward(given.front(), again, draws), given), {}, draws);
  };
  return normed(norm_after, layer->run(inputs, run));
}

at::Tensor Mlp::forward(const Layer& block, Residual& stream, const Activation& activation,
                        const Batch& draws) const {
  const at::Tensor input = stream.normed(norm);
  const auto run = [this, &block, activation, draws,
                    again = normed_again(norm, block, stream)](const at::Tensor& in) {
    const at::Tensor projected = inner.forward(in, again, draws);
    ops::Recompute activated_again;
    if (activation.recomputable && block.recomputes_cheap())
      activated_again = [run = activation.run, kept = projected.detach()] { return run(kept); };
    return outer.forward(activation.run(projected), activated_again, draws);
  };
  return normed(norm_after, layer->run(input, run));
}

}  // namespace echelon
