#include "shard/layer_hook.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace echelon {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The identity. Its backward calls a function first, which tells the engine how far the backward pass has
/// come.
struct OnBackward : torch::autograd::Function<OnBackward> {
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors,
                               const std::function<void()>* callback) {
    ctx->saved_data["callback"] = reinterpret_cast<std::int64_t>(callback);
    // Missing gradients stay undefined; they need not be allocated as zeros, because they are only passed on.
    ctx->set_materialize_grads(false);
    variable_list same;
    for (const at::Tensor& tensor : tensors) same.push_back(tensor.view_as(tensor));
    return same;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    (*reinterpret_cast<const std::function<void()>*>(ctx->saved_data["callback"].toInt()))();
    grads.emplace_back();  // no gradient for `callback`
    return grads;
  }
};

bool any_requires_grad(const LayerInputs& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& x) { return x.requires_grad(); });
}

/// A parameter in the layer is trained.
bool any_trained(const Layer& layer) {
  const auto& own = layer.parameters();
  const auto& inner = layer.layers();
  return std::any_of(own.begin(), own.end(), [](const auto& parameter) { return parameter->trained(); }) ||
         std::any_of(inner.begin(), inner.end(), [](const auto& part) { return any_trained(*part); });
}

}  // namespace

RecomputePlan::RecomputePlan(const Model& model, const ActivationCheckpointingOptions& options) {
  if (options.policy == RecomputePolicy::kNone) return;
  mode_ = options.policy == RecomputePolicy::kSelective ? Mode::kSelective : Mode::kFull;
  const std::vector<Layer*> layers = all_layers(model);
  for (const std::string& pattern : options.modules) {
    require_match("activation_checkpointing.modules", pattern, layers);
  }
  std::int64_t index = 0;
  for (const Layer* layer : layers) {
    const bool named = options.modules.empty() ? layer->role() == Layer::Role::kBlock
                                               : matches_any(options.modules, layer->name());
    if (!named) continue;
    if (options.policy != RecomputePolicy::kEveryN || index % options.every_n == 0) layers_.insert(layer);
    ++index;
  }
}

UnitHook::UnitHook(Pass& pass, const Layer& layer, const UnitPlan* plan, std::optional<std::size_t> unit,
                   RecomputePlan::Mode mode, bool roots_train, OffloadedInputs* host)
    : pass_(&pass),
      plan_(plan),
      unit_(unit),
      last_(layer.role() == Layer::Role::kHead),
      trains_(any_trained(layer) || roots_train),
      mode_(mode),
      host_(host),
      begin_backward_([this] { pass_->begin_backward(*unit_); }),
      end_backward_([this] { pass_->end_backward(*unit_); }) {}

at::Tensor UnitHook::run(const LayerInputs& inputs, const LayerBody& body) {
  const LayerInputs x = before(inputs);
  const bool again =
      mode_ == RecomputePlan::Mode::kFull && at::GradMode::is_enabled() && any_requires_grad(x);
  if (!again) return after(body(x));
  return after(recompute_in_backward(x, body, host_, *pass_));
}

LayerInputs UnitHook::before(const LayerInputs& inputs) {
  LayerInputs x = inputs;
  if (plan_ != nullptr) {
    for (at::Tensor& input : x) {
      if (input.is_floating_point()) input = input.to(plan_->compute);
    }
  }
  // Recomputation starts from the gradient of an input. If nothing before this layer is trained, there is
  // none, and the input is made to have one.
  if (mode_ == RecomputePlan::Mode::kFull && trains_ && at::GradMode::is_enabled() && !any_requires_grad(x) &&
      x.front().is_floating_point()) {
    x.front() = x.front().detach().requires_grad_(true);
  }
  if (!unit_) return x;
  pass_->begin_forward(*unit_);
  return at::GradMode::is_enabled() && any_requires_grad(x)
             ? OnBackward::apply(at::TensorList(x), &end_backward_)
             : x;
}

at::Tensor UnitHook::after(at::Tensor output) {
  // Nothing up to here is trained if the output needs no gradient; without autograd it is not known.
  if (unit_) pass_->end_forward(*unit_, !at::GradMode::is_enabled() || output.requires_grad());
  // The head's output is the loss, which is not cast.
  if (plan_ != nullptr && !last_ && output.is_floating_point()) output = output.to(plan_->outer);
  if (!unit_ || !at::GradMode::is_enabled() || !output.requires_grad()) return output;
  return OnBackward::apply(at::TensorList(output), &begin_backward_).front();
}

}  // namespace echelon
