#pragma once
#include <functional>
#include <optional>
#include <set>

#include "shard/sharded_model.h"

namespace echelon {

/// Which layers compute again in backward.
class RecomputePlan {
 public:
  enum class Mode { kNone, kFull, kSelective };
  /// Throws Error(kUsage) for a pattern that matches no module.
  RecomputePlan(const Model& model, const ActivationCheckpointingOptions& options);
  [[nodiscard]] Mode mode(const Layer& layer) const {
    return layers_.count(&layer) > 0 ? mode_ : Mode::kNone;
  }

 private:
  Mode mode_ = Mode::kNone;
  std::set<const Layer*> layers_;
};

/// Gathers, frees and reduces one unit around its layer's forward and backward.
class ShardedModel::Hook final : public LayerHook {
 public:
  /// `plan` and `unit` may be absent: then the layer only recomputes, or only casts.
  Hook(ShardedModel& owner, const UnitPlan* plan, std::optional<std::size_t> unit, bool last,
       RecomputePlan::Mode mode, bool offload);

  at::Tensor run(const LayerInputs& inputs, const LayerBody& body) override;
  bool recomputes_cheap() const override { return mode_ == RecomputePlan::Mode::kSelective; }

 private:
  LayerInputs before(const LayerInputs& inputs);
  void begin_forward();
  at::Tensor after(at::Tensor output);
  void begin_backward();
  void end_backward();
  [[nodiscard]] Unit& unit() const { return *owner_->units_[*unit_]; }

  ShardedModel* owner_;
  const UnitPlan* plan_;
  std::optional<std::size_t> unit_;
  bool last_;
  RecomputePlan::Mode mode_;
  bool offload_;
  std::function<void()> begin_backward_;
  std::function<void()> end_backward_;
};

}  // namespace echelon
