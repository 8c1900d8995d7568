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

ShardedModel::Hook::Hook(ShardedModel& owner, const Layer& layer, const UnitPlan* plan,
                         std::optional<std::size_t> unit, RecomputePlan::Mode mode, bool offload)
    : owner_(&owner),
      plan_(plan),
      unit_(unit),
      last_(layer.role() == Layer::Role::kHead),
      trains_(any_trained(layer) || std::any_of(owner.roots_.begin(), owner.roots_.end(),
                                                [](const Unit* root) { return root->trains(); })),
      mode_(mode),
      offload_(offload),
      begin_backward_([this] { begin_backward(); }),
      end_backward_([this] { end_backward(); }) {}

at::Tensor ShardedModel::Hook::run(const LayerInputs& inputs, const LayerBody& body) {
  const LayerInputs x = before(inputs);
  const bool again =
      mode_ == RecomputePlan::Mode::kFull && at::GradMode::is_enabled() && any_requires_grad(x);
  if (!again) return after(body(x));
  return after(recompute_in_backward(x, body, offload_ ? &owner_->offloaded_ : nullptr, *owner_));
}

LayerInputs ShardedModel::Hook::before(const LayerInputs& inputs) {
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
  begin_forward();
  return at::GradMode::is_enabled() && any_requires_grad(x)
             ? OnBackward::apply(at::TensorList(x), &end_backward_)
             : x;
}

void ShardedModel::Hook::begin_forward() {
  const HostTime host(owner_->times_);
  ++owner_->times_.passes;
  // A recomputation runs in the order of backward, so it must not change the recorded order of forward.
  const bool forward = owner_->recomputing_ == 0;
  if (owner_->training_ && forward) owner_->activity_->enter(Doing::kForward, unit().name());
  owner_->frames_.begin(forward ? SpanKind::kForward : SpanKind::kRecompute, unit().name());
  unit().start_unshard();
  if (forward) {
    owner_->forward_order_.use(*unit_);
    owner_->prefetch_forward();
  }
  owner_->unshard(unit());
  // Every run is counted, also those whose end_backward() is never called because no input needs a gradient.
  // Their gradients are complete only at the end of the backward pass; the count then stays above zero, and
  // accumulate() reduces the unit there.
  if (owner_->training_ && forward) ++owner_->uses_[*unit_];
}

at::Tensor ShardedModel::Hook::after(at::Tensor output) {
  if (unit_)
    owner_->frames_.end(owner_->recomputing_ == 0 ? SpanKind::kForward : SpanKind::kRecompute, unit().name());
  if (unit_ && owner_->recomputing_ == 0) {
    const HostTime host(owner_->times_);
    // Nothing up to here is trained if the output needs no gradient; without autograd it is not known.
    const bool backward = owner_->training_ && (!at::GradMode::is_enabled() || output.requires_grad());
    if (backward) owner_->post_forward_.push_back(*unit_);
    const bool needed = backward && plan_->weights_in_backward;
    // The head's backward follows immediately, so freed weights would have to be gathered again.
    if (!needed || !last_) unit().release_after_forward(needed);
  }
  // The head's output is the loss, which is not cast.
  if (plan_ != nullptr && !last_ && output.is_floating_point()) output = output.to(plan_->outer);
  if (!unit_ || !at::GradMode::is_enabled() || !output.requires_grad()) return output;
  return OnBackward::apply(at::TensorList(output), &begin_backward_).front();
}

void ShardedModel::Hook::begin_backward() {
  const HostTime host(owner_->times_);
  ++owner_->times_.passes;
  owner_->backward_order_.use(*unit_);
  owner_->activity_->enter(Doing::kBackward, unit().name());
  owner_->frames_.begin(SpanKind::kBackward, unit().name());
  if (!plan_->weights_in_backward) return;
  unit().start_unshard();
  if (owner_->options_.backward_prefetch == BackwardPrefetch::kPre) owner_->prefetch_backward();
  owner_->unshard(unit());
}

void ShardedModel::Hook::end_backward() {
  owner_->frames_.end(SpanKind::kBackward, unit().name());
  if (--owner_->uses_[*unit_] == 0) owner_->reduce(*unit_);
}

}  // namespace echelon
