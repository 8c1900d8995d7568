#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "comm/activity.h"
#include "shard/prefetch_order.h"
#include "shard/recompute.h"
#include "shard/unit.h"
#include "shard/unit_times.h"

namespace echelon {

/// Everything the engine needs to know of a recipe.
struct EngineOptions {
  ShardOptions shard;
  PrecisionOptions precision{.preset = PrecisionPreset::kFp32};
  ActivationCheckpointingOptions activations;
  bool reduce_at_end = false;  ///< train.reduce_gradients: last_micro_batch
  int ranks_per_node = 1;      ///< size of a shard group when a hybrid strategy names none
  std::shared_ptr<Activity> activity = std::make_shared<Activity>();  ///< told which unit computes
  bool trains = true;  ///< false: no gradients, and zeros for weights that the owner brings
};

/// A model whose parameters live in slices over ranks (fully sharded data parallel: Zhao et al., PyTorch
/// FSDP; Rajbhandari et al., ZeRO). Units are gathered just before they compute, with the following ones
/// prefetched, freed after, and gathered again for their backward; gradients leave as soon as a unit's
/// backward is complete. What differs between strategies is how long weights and gradients stay and which
/// ranks talk (groups.h). All calls are collective.
class ShardedModel final : public RecomputeGuard {
 public:
  /// Allocates and initialises this rank's slices only. `comm` (of all ranks, for tensors on `device`)
  /// outlives this object. Throws Error(kUsage) for options that do not fit the model or the ranks.
  ShardedModel(std::unique_ptr<Model> model, Communicator& comm, const EngineOptions& options,
               std::uint64_t seed, at::Device device);
  ~ShardedModel() override;

  /// Asks for the first units' weights; called before the batch is at hand.
  void prefetch();

  /// Forward and backward of one micro-batch. Returns the summed loss of this rank (fp32 scalar tensor).
  /// Gradients are multiplied by `gradient_scale` and summed over ranks and the micro-batches of a step.
  at::Tensor accumulate(const Batch& batch, double gradient_scale, MicroBatch place);

  /// Waits until every unit's gradient() is complete. Before reading gradients.
  void finish_gradients();

  /// After master weights were written: gathered copies of them are dropped.
  void weights_changed();

  /// Of this rank's batch, no gradients.
  Score evaluate(const Batch& batch);
  /// Continues prompts of this rank, gathering weights for every step; what was computed of earlier tokens
  /// belongs to the rank.
  [[nodiscard]] std::unique_ptr<Decoder> decoder(const Batch& prompts);

  [[nodiscard]] const Model& model() const { return *model_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  [[nodiscard]] const std::vector<UnitPlan>& plan() const { return plan_; }
  [[nodiscard]] const Groups& groups() const { return groups_; }
  [[nodiscard]] const Precision& precision() const { return precision_; }
  /// Is anything computed in `type`, by the recipe's main type or an override?
  [[nodiscard]] bool computes_in(at::ScalarType type) const;
  /// Do gradients pass through fp16 anywhere, where small ones become zero?
  [[nodiscard]] bool needs_loss_scale() const;
  [[nodiscard]] at::Device device() const { return device_; }

  /// Bytes this rank keeps: master slices + gradients.
  [[nodiscard]] std::int64_t slice_bytes() const;
  [[nodiscard]] const BufferPool& pool() const { return pool_; }

  using Times = UnitTimes;
  /// On a GPU `waiting_s` counts waits that the device has finished.
  [[nodiscard]] Times times() const;

  void begin_recompute() override { ++recomputing_; }
  void end_recompute() override { --recomputing_; }

 private:
  class Hook;
  friend class Hook;
  class RankDecoder;
  friend class RankDecoder;
  void make_units(const EngineOptions& options);
  [[nodiscard]] std::vector<Communicator*> gathering_groups() const;
  void attach_hooks(const ActivationCheckpointingOptions& options);
  void begin_pass(bool training);
  void prefetch_forward();
  void prefetch_backward();
  /// start_unshard() unless gathered weights would exceed the cap.
  void prefetch_unit(std::size_t unit);
  void unshard(Unit& unit);
  void reduce(std::size_t unit);
  template <class F>
  auto without_gradients(const F& compute);

  std::unique_ptr<Model> model_;
  std::shared_ptr<Activity> activity_;
  ShardOptions options_;
  Precision precision_;
  at::Device device_;
  Groups groups_;  ///< outlive the pool, whose buffers they know
  BufferPool pool_;
  CopyStream copies_;
  OffloadedInputs offloaded_;                 ///< activation_checkpointing.offload
  std::vector<UnitPlan> plan_;                ///< empty ones too
  std::vector<std::unique_ptr<Unit>> units_;  ///< outer before inner, in forward order
  Unit* root_ = nullptr;                      ///< gathered for the whole pass; null: it has no parameters
  std::vector<std::unique_ptr<Hook>> hooks_;

  PrefetchOrder forward_order_;
  PrefetchOrder backward_order_;
  std::vector<std::size_t> post_forward_;  ///< units in the order in which their forward ended
  std::vector<int> uses_;                  ///< by unit: forward runs whose end of backward was not heard of
  std::vector<bool> reduced_;              ///< by unit: its backward is complete
  std::deque<Unit*> reducing_;             ///< sums in flight, oldest first
  std::deque<Unit*> landing_;              ///< sums on their way to host memory, oldest first
  bool training_ = false;
  int recomputing_ = 0;
  Times times_;
};

}  // namespace echelon
