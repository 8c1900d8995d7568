#pragma once
#include <functional>
#include <optional>
#include <set>

#include "shard/sharded_model.h"

namespace echelon {

/// The layers that are recomputed in backward.
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

/// Gathers the weights of one unit before its layer's forward and backward, frees them afterwards, and starts
/// the reduction of its gradients. Also recomputes the layer and casts activations at its border.
class ShardedModel::Hook final : public LayerHook {
 public:
  /// `plan`: null if `layer` is not a unit. `unit`: index in units(); nothing if the unit has no parameters,
  /// then the hook only casts. `offload`: kept inputs go to host memory.
  Hook(ShardedModel& owner, const Layer& layer, const UnitPlan* plan, std::optional<std::size_t> unit,
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
  bool last_;    ///< the layer is the model's head
  bool trains_;  ///< a parameter in the layer or a root does
  RecomputePlan::Mode mode_;
  bool offload_;
  std::function<void()> begin_backward_;
  std::function<void()> end_backward_;
};

}  // namespace echelon
