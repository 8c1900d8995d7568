#include "optim/optimizer.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "base/str.h"
#include "optim/adadelta.h"
#include "optim/adamw.h"
#include "optim/anyprecision_adamw.h"
#include "optim/sgd.h"
#include "shard/memory/host_memory.h"

namespace echelon {

namespace {

std::unique_ptr<UpdateRule> make_rule(const OptimOptions& options) {
  switch (options.kind) {
    case OptimKind::kAdamW:
      break;
    case OptimKind::kAnyPrecisionAdamW:
      return std::make_unique<AnyPrecisionAdamW>(options);
    case OptimKind::kSgd:
      return std::make_unique<Sgd>(options);
    case OptimKind::kAdadelta:
      return std::make_unique<Adadelta>(options);
  }
  return std::make_unique<AdamW>(options);
}

}  // namespace

Optimizer::Optimizer(std::unique_ptr<UpdateRule> rule, const OptimOptions& options, const ShardedModel& model)
    : kind_(options.kind),
      weight_decay_(options.weight_decay),
      rule_(std::move(rule)),
      groups_(parameter_groups(options, model)),
      model_(&model) {
  for (const auto& unit : model.units()) {
    const bool updated = unit->plan().trained_numel() > 0;
    if (!updated || unit->master().scalar_type() == at::kFloat || rule_->takes_bf16_weights()) continue;
    throw Error(Code::kUsage,
                str("optim.kind ", word_of(kind_), " needs fp32 weights, but precision.master is bf16; use ",
                    "optim.kind: anyprecision_adamw, or precision.master: fp32"));
  }
  for (const UpdateRule::StateSpec& spec : rule_->states()) {
    OptimizerState state{spec.name, {}};
    for (const auto& unit : model.units())
      state.slices.push_back(
          HostMemory::zeros(unit->trained_numel(), unit->master().options().dtype(spec.dtype)));
    states_.push_back(std::move(state));
  }
}

void Optimizer::step(std::int64_t number, double lr, double gradient_factor) {
  const at::NoGradGuard no_grad;
  for (const ParameterGroup& group : groups_) {
    std::vector<UpdateRange> ranges;
    for (const SliceRange& range : group.ranges) {
      const Unit& unit = *model_->units()[range.unit];
      const auto view = [&](const at::Tensor& slice) { return slice.narrow(0, range.begin, range.numel()); };
      UpdateRange& views = ranges.emplace_back(UpdateRange{view(unit.master()), view(unit.gradient()), {}});
      for (const OptimizerState& state : states_)
        views.states.push_back(state.slices[range.unit].narrow(0, range.trained_at, range.numel()));
    }
    rule_->update({.number = number,
                   .lr = lr * group.lr_factor,
                   .weight_decay = group.decays ? weight_decay_ : 0.0,
                   .gradient_factor = gradient_factor},
                  ranges);
  }
}

std::int64_t state_bytes_per_parameter(const OptimOptions& options) {
  std::int64_t bytes = options.ema_decay > 0 ? 4 : 0;
  for (const UpdateRule::StateSpec& state : make_rule(options)->states()) {
    bytes += static_cast<std::int64_t>(c10::elementSize(state.dtype));
  }
  return bytes;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimOptions& options, const ShardedModel& model) {
  return std::make_unique<Optimizer>(make_rule(options), options, model);
}

}  // namespace echelon
