#pragma once
#include <functional>
#include <optional>
#include <set>

#include "shard/options.h"
#include "shard/pass.h"
#include "shard/recompute.h"

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
class UnitHook final : public LayerHook {
 public:
  /// `plan`: null if `layer` is not a unit. `unit`: its number in the pass; nothing if the unit has no
  /// parameters, then the hook only casts. `host`: stores kept inputs; null: they stay on the device. `pass`
  /// and `host` must outlive this object.
  UnitHook(Pass& pass, const Layer& layer, const UnitPlan* plan, std::optional<std::size_t> unit,
           RecomputePlan::Mode mode, bool roots_train, OffloadedInputs* host);

  at::Tensor run(const LayerInputs& inputs, const LayerBody& body) override;
  bool recomputes_cheap() const override { return mode_ == RecomputePlan::Mode::kSelective; }

 private:
  LayerInputs before(const LayerInputs& inputs);
  at::Tensor after(at::Tensor output);

  Pass* pass_;
  const UnitPlan* plan_;
  std::optional<std::size_t> unit_;
  bool last_;    ///< the layer is the model's head
  bool trains_;  ///< a parameter in the layer or a root does
  RecomputePlan::Mode mode_;
  OffloadedInputs* host_;
  std::function<void()> begin_backward_;
  std::function<void()> end_backward_;
};

}  // namespace echelon
