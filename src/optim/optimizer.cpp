#include "optim/optimizer.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "optim/adadelta.h"
#include "optim/adamw.h"
#include "optim/anyprecision_adamw.h"
#include "optim/sgd.h"
#include "shard/memory/host_memory.h"

namespace echelon {

namespace {

/// A name that no other optimizer uses: the states in a checkpoint tell the optimizer that made it.
constexpr const char* kMuonMomentum = "muon_momentum";

std::unique_ptr<UpdateRule> make_rule(const OptimOptions& options) {
  switch (options.kind) {
    case OptimKind::kAdamW:
    case OptimKind::kMuon:  // of what is no matrix
      break;
    case OptimKind::kAnyPrecisionAdamW: return std::make_unique<AnyPrecisionAdamW>(options);
    case OptimKind::kSgd: return std::make_unique<Sgd>(options);
    case OptimKind::kAdadelta: return std::make_unique<Adadelta>(options);
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
    throw Error(Code::kUsage, "optim.kind ", word_of(kind_),
                " needs fp32 weights, but precision.master is bf16; use ",
                "optim.kind: anyprecision_adamw, or precision.master: fp32");
  }
  const auto add = [&](const std::string& name, at::ScalarType type, bool of_muon) {
    OptimizerState state{name, {}, [options, of_muon](const Parameter::Part& part) {
                           return !part.frozen && is_of_muon(options, part) == of_muon;
                         }};
    for (const auto& unit : model.units()) {
      const std::vector<SlicePiece> pieces = state.pieces(*unit);
      const std::int64_t numel = pieces.empty() ? 0 : pieces.back().at + pieces.back().numel();
      state.slices.push_back(HostMemory::zeros(numel, unit->master().options().dtype(type)));
    }
    states_.push_back(std::move(state));
  };
  for (const UpdateRule::StateSpec& spec : rule_->states()) add(spec.name, spec.dtype, false);
  if (kind_ != OptimKind::kMuon) return;
  muon_ = std::make_unique<Muon>(options, model);
  add(kMuonMomentum, at::kFloat, true);
}

void Optimizer::step(std::int64_t number, double lr, double gradient_factor) {
  const at::NoGradGuard no_grad;
  for (const ParameterGroup& group : groups_) {
    std::vector<UpdateRange> ranges;
    for (const SliceRange& range : group.ranges) {
      const Unit& unit = *model_->units()[range.unit];
      const auto view = [&](const at::Tensor& slice) { return slice.narrow(0, range.begin, range.numel()); };
      UpdateRange& views = ranges.emplace_back(UpdateRange{view(unit.master()), view(unit.gradient()), {}});
      for (std::size_t s = 0; s < rule_->states().size(); ++s)
        views.states.push_back(states_[s].slices[range.unit].narrow(0, range.trained_at, range.numel()));
    }
    rule_->update({.number = number,
                   .lr = lr * group.lr_factor,
                   .weight_decay = group.decays ? weight_decay_ : 0.0,
                   .gradient_factor = gradient_factor},
                  ranges);
  }
  if (muon_) muon_->update(lr, gradient_factor, states_.back().slices);
}

StateBytes state_bytes(const OptimOptions& options) {
  const std::int64_t averaged = options.ema_decay > 0 ? 4 : 0;
  std::int64_t of_rule = 0;
  for (const UpdateRule::StateSpec& state : make_rule(options)->states())
    of_rule += static_cast<std::int64_t>(c10::elementSize(state.dtype));
  return [&options, averaged, of_rule](const Parameter::Part& part) {
    return averaged + (is_of_muon(options, part) ? 4 : of_rule);
  };
}

std::unique_ptr<Optimizer> make_optimizer(const OptimOptions& options, const ShardedModel& model) {
  return std::make_unique<Optimizer>(make_rule(options), options, model);
}

}  // namespace echelon
