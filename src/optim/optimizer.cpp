#include "optim/optimizer.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "shard/memory/host_memory.h"

namespace echelon {
namespace {

/// A name that no other optimizer uses: the states in a checkpoint tell the optimizer that made it.
constexpr const char* kMuonMomentum = "muon_momentum";

}  // namespace

Optimizer::Optimizer(const OptimOptions& options, const ShardedModel& model)
    : kind_(options.kind), rule_(make_rule(options)) {
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
      std::int64_t numel = 0;
      for (const SlicePiece& piece : unit->pieces()) numel += state.holds(*piece.part) ? piece.numel() : 0;
      state.slices.push_back(HostMemory::zeros(numel, unit->master().options().dtype(type)));
    }
    states_.push_back(std::move(state));
  };
  for (const UpdateRule::StateSpec& spec : rule_->states()) add(spec.name, spec.dtype, false);
  for (const ParameterGroup& group : parameter_groups(options, model)) {
    groups_.push_back({group.lr_factor, group.decays ? options.weight_decay : 0.0, {}});
    for (const SliceRange& range : group.ranges) {
      const Unit& unit = *model.units()[range.unit];
      const auto view = [&](const at::Tensor& slice) { return slice.narrow(0, range.begin, range.numel()); };
      UpdateRange views{view(unit.master()), view(unit.gradient()), {}};
      for (const OptimizerState& state : states_)
        views.states.push_back(state.slices[range.unit].narrow(0, range.trained_at, range.numel()));
      groups_.back().ranges.push_back(std::move(views));
    }
  }
  if (kind_ != OptimKind::kMuon) return;
  muon_ = std::make_unique<Muon>(options, model);
  add(kMuonMomentum, at::kFloat, true);
}

void Optimizer::step(std::int64_t number, double lr, double gradient_factor) {
  const at::NoGradGuard no_grad;
  for (const Group& group : groups_) {
    rule_->update({.number = number,
                   .lr = lr * group.lr_factor,
                   .weight_decay = group.weight_decay,
                   .gradient_factor = gradient_factor},
                  group.ranges);
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

}  // namespace echelon
