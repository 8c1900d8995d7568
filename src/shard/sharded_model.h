#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/not_copied.h"
#include "comm/activity.h"
#include "shard/layer_hook.h"
#include "shard/pass.h"
#include "shard/unit.h"

namespace echelon {

/// The options of the engine.
struct EngineOptions {
  ShardOptions shard;
  PrecisionOptions precision{.preset = PrecisionPreset::kFp32};
  ActivationCheckpointingOptions activations;
  bool reduce_at_end = false;  ///< train.reduce_gradients: last_micro_batch
  int ranks_per_node = 1;      ///< default size of a shard group of a hybrid strategy
  std::shared_ptr<Activity> activity = std::make_shared<Activity>();  ///< receives the unit that computes now
  bool initialize = true;  ///< false: weights are zeros until initialize() or until they are loaded
  bool trains = true;      ///< false: no gradient buffers, and weights start as zeros for the caller to load
};

/// A model whose parameters are sharded over ranks (fully sharded data parallel: Zhao et al., PyTorch FSDP;
/// Rajbhandari et al., ZeRO). A unit's weights are gathered before its forward and freed afterwards, and
/// again for its backward; the next units are prefetched. The reduction of its gradients starts when its
/// backward is complete. Strategies differ in how long weights and gradients are kept, and in which ranks
/// communicate (groups.h). One thread. All non-const calls are collective.
class ShardedModel final : NotCopied {
 public:
  /// Allocates and initializes (with `seed`) only this rank's slices. `comm` consists of all ranks,
  /// communicates tensors on `device`, and must outlive this object. Throws Error(kUsage) for options that do
  /// not fit the model or the number of ranks.
  ShardedModel(std::unique_ptr<Model> model, Communicator& comm, const EngineOptions& options,
               std::uint64_t seed, at::Device device);
  ~ShardedModel();

  /// Gives all weights their initial values, which depend only on `seed`.
  void initialize(std::uint64_t seed);

  /// Starts to gather the first units. Optional: call before reading a batch to overlap the two.
  void prefetch();

  /// Forward and backward of one micro-batch. Returns this rank's loss, summed over its targets (fp32 scalar
  /// tensor). Gradients are multiplied by `gradient_scale` and summed over ranks and over the micro-batches
  /// of a step.
  at::Tensor accumulate(const Batch& batch, double gradient_scale, MicroBatch place);

  /// Waits until every unit's gradient() is complete. Required before gradients are read.
  void finish_gradients() { pass_.finish_gradients(); }

  /// Required after master weights are written: invalidates gathered weights.
  void weights_changed();
  /// Call it after an update. An update changes only trained weights, so frozen units keep their gathered
  /// ones.
  void weights_updated();

  /// Evaluates this rank's batch without gradients.
  Score evaluate(const Batch& batch);
  /// Model::token_losses() of this rank's batch, on the host. Throws Error(kPeer) if the network has failed.
  std::vector<float> token_losses(const Batch& batch, const std::vector<std::int64_t>& tokens,
                                  const std::vector<std::int64_t>& targets);
  /// Generates for this rank's prompts. Every call of the decoder is a pass that gathers all units; its
  /// key-value cache is local to the rank. This object must outlive the decoder.
  [[nodiscard]] std::unique_ptr<Decoder> decoder(const Batch& prompts);

  [[nodiscard]] const Model& model() const { return *model_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  [[nodiscard]] const std::vector<UnitPlan>& plan() const { return plan_; }
  [[nodiscard]] const Groups& groups() const { return groups_; }
  [[nodiscard]] const Precision& precision() const { return precision_; }
  /// True if gradients pass through fp16 anywhere, where small ones underflow.
  [[nodiscard]] bool needs_loss_scale() const;
  [[nodiscard]] at::Device device() const { return device_; }

  /// Bytes of this rank's master weights and gradient slices.
  [[nodiscard]] std::int64_t slice_bytes() const;
  [[nodiscard]] const BufferPool& pool() const { return pool_; }

  using Times = UnitTimes;
  /// Returns the times so far. On a GPU, they include only waits that the stream has completed.
  [[nodiscard]] Times times() const;

 private:
  [[nodiscard]] std::vector<std::unique_ptr<Unit>> make_units(const EngineOptions& options);
  void attach_hooks(const ActivationCheckpointingOptions& options);
  /// Makes the scales of fp8 those of the weights as they are now. Collective.
  void agree_on_scales();

  std::unique_ptr<Model> model_;
  std::shared_ptr<Activity> activity_;
  Precision precision_;
  at::Device device_;
  Groups groups_;  ///< declared before the pool, whose destructor unregisters its buffers with them
  BufferPool pool_;
  CopyStream copies_;
  OffloadedInputs offloaded_;                 ///< activation_checkpointing.offload
  std::vector<UnitPlan> plan_;                ///< includes units without parameters
  at::Tensor scales_;                         ///< Fp8Slice's, of all units
  std::vector<std::unique_ptr<Unit>> units_;  ///< outer before inner, in forward order
  Pass pass_;
  std::vector<std::unique_ptr<UnitHook>> hooks_;
};

}  // namespace echelon
