#include "shard/sharded_model.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The identity whose backward calls a function first: how the engine learns where the backward pass stands.
struct OnBackward : torch::autograd::Function<OnBackward> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const std::function<void()>* callback) {
    ctx->saved_data["callback"] = reinterpret_cast<std::int64_t>(callback);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    (*reinterpret_cast<const std::function<void()>*>(ctx->saved_data["callback"].toInt()))();
    return {grads[0], {}};
  }
};

/// Sums in flight while the next unit's backward computes; one more would only hold memory.
constexpr std::size_t kReducesInFlight = 2;

}  // namespace

at::ScalarType scalar_type(const std::string& name) {
  if (name == "bf16") return at::kBFloat16;
  if (name == "fp32") return at::kFloat;
  throw Error(Code::kUsage, str("precision '", name, "' is unknown; known: bf16, fp32"));
}

/// Gathers, frees and reduces one unit around its layer's forward and backward.
class ShardedModel::Hook final : public LayerHook {
 public:
  Hook(ShardedModel& owner, std::size_t index, Layer::Role role)
      : owner_(&owner),
        index_(index),
        weights_in_backward_(role != Layer::Role::kEmbedding),
        last_(role == Layer::Role::kHead),
        before_backward_([this] { begin_backward(); }),
        after_backward_([this] { owner_->reduce(unit()); }) {}

  at::Tensor before(const at::Tensor& input) override {
    unit().start_unshard();
    owner_->prefetch_forward(index_);
    unit().finish_unshard();
    if (!at::GradMode::is_enabled() || !input.requires_grad()) return input;
    return OnBackward::apply(input, &after_backward_);
  }

  at::Tensor after(const at::Tensor& output) override {
    const bool training = at::GradMode::is_enabled();
    // The last unit's backward comes at once: freeing its weights would only gather them again.
    if (!training || !weights_in_backward_ || (owner_->options_.reshard_after_forward && !last_))
      unit().reshard();
    return training ? OnBackward::apply(output, &before_backward_) : output;
  }

  /// Used by the prefetch of the unit after this one.
  void prefetch_for_backward() {
    if (weights_in_backward_) unit().start_unshard();
  }

 private:
  Unit& unit() const { return *owner_->units_[index_]; }
  void begin_backward() {
    if (weights_in_backward_) {
      unit().start_unshard();
      unit().finish_unshard();
    }
    owner_->prefetch_backward(index_);
  }

  ShardedModel* owner_;
  std::size_t index_;
  bool weights_in_backward_;  ///< an embedding's gradient needs ids only
  bool last_;
  std::function<void()> before_backward_;
  std::function<void()> after_backward_;
};

ShardedModel::ShardedModel(std::unique_ptr<Model> model, Communicator& comm, const ShardOptions& options,
                           at::ScalarType compute, std::uint64_t seed, at::Device device)
    : model_(std::move(model)), options_(options), device_(device), pool_(device) {
  make_units(comm, compute, options.wrap.policy);
  for (const auto& unit : units_) unit->initialise(seed);
}

ShardedModel::~ShardedModel() {
  for (const auto& layer : model_->layers()) layer->attach(nullptr);
}

void ShardedModel::add_unit(const std::string& name, std::vector<Parameter*> parameters, Communicator& comm,
                            at::ScalarType compute) {
  units_.push_back(std::make_unique<Unit>(name, std::move(parameters), comm, pool_, compute, device_));
}

void ShardedModel::make_units(Communicator& comm, at::ScalarType compute, const std::string& policy) {
  std::vector<Parameter*> outer;
  for (const auto& parameter : model_->shared()) outer.push_back(parameter.get());
  for (const auto& layer : model_->layers()) {
    std::vector<Parameter*> own;
    for (const auto& parameter : layer->parameters()) own.push_back(parameter.get());
    if (policy == "whole") {
      outer.insert(outer.end(), own.begin(), own.end());
    } else if (!own.empty()) {
      hooks_.push_back(std::make_unique<Hook>(*this, units_.size(), layer->role()));
      layer->attach(hooks_.back().get());
      add_unit(layer->name(), std::move(own), comm, compute);
    }
  }
  if (!outer.empty()) {
    add_unit("outer", std::move(outer), comm, compute);
    outer_ = units_.back().get();
  }
}

void ShardedModel::prefetch_forward(std::size_t index) {
  const std::size_t end =
      std::min(hooks_.size(), index + 1 + static_cast<std::size_t>(options_.forward_prefetch));
  for (std::size_t next = index + 1; next < end; ++next) units_[next]->start_unshard();
}

void ShardedModel::prefetch_backward(std::size_t index) {
  if (index > 0 && options_.backward_prefetch == "pre") hooks_[index - 1]->prefetch_for_backward();
}

void ShardedModel::reduce(Unit& unit) {
  while (reducing_.size() >= kReducesInFlight) {
    reducing_.front()->finish_reduce();
    reducing_.pop_front();
  }
  unit.start_reduce(accumulate_);
  reduced_.push_back(&unit);
  reducing_.push_back(&unit);
  if (options_.backward_prefetch != "post") return;
  for (std::size_t i = 1; i < hooks_.size(); ++i) {
    if (units_[i].get() == &unit) hooks_[i - 1]->prefetch_for_backward();
  }
}

at::Tensor ShardedModel::accumulate(const at::Tensor& ids, double gradient_scale, bool first) {
  accumulate_ = !first;
  reduced_.clear();
  if (outer_ != nullptr) outer_->start_unshard();
  if (!hooks_.empty()) units_[0]->start_unshard();
  if (outer_ != nullptr) outer_->finish_unshard();
  const at::Tensor loss = model_->loss(ids, gradient_scale);
  loss.backward();
  // Units whose input has no gradient (embedding), and the outer one, are complete only now.
  for (const auto& unit : units_) {
    if (std::find(reduced_.begin(), reduced_.end(), unit.get()) == reduced_.end()) reduce(*unit);
  }
  return loss.detach();
}

void ShardedModel::finish_gradients() {
  for (Unit* unit : reducing_) unit->finish_reduce();
  reducing_.clear();
}

template <class F>
at::Tensor ShardedModel::without_gradients(const F& compute) {
  const at::NoGradGuard no_grad;
  if (outer_ != nullptr) {
    outer_->start_unshard();
    outer_->finish_unshard();
  }
  at::Tensor result = compute();
  if (outer_ != nullptr) outer_->reshard();
  return result;
}

at::Tensor ShardedModel::evaluate(const at::Tensor& ids) {
  return without_gradients([&] { return model_->loss(ids, 0.0); });
}

at::Tensor ShardedModel::next_token_logits(const at::Tensor& ids) {
  return without_gradients([&] { return model_->next_token_logits(ids); });
}

std::int64_t ShardedModel::slice_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& unit : units_) bytes += 2 * 4 * unit->layout().slice_numel();
  return bytes;
}

}  // namespace echelon
