#pragma once
#include <cstdint>

#include "base/options/choice.h"

namespace echelon {

/// The devices on which a run computes.
enum class TrainDevice : std::uint8_t {
  kAuto,  ///< a GPU per rank if there is one, else the CPU
  kCpu,
  kCuda,        ///< a GPU per rank, required
  kCudaShared,  ///< several ranks may share a GPU
};
template <>
inline constexpr std::array<std::string_view, 4> kWords<TrainDevice>{"auto", "cpu", "cuda", "cuda_shared"};

/// The time at which accumulated gradients are reduced over ranks.
enum class ReduceGradients : std::uint8_t { kEachMicroBatch, kLastMicroBatch };
template <>
inline constexpr std::array<std::string_view, 2> kWords<ReduceGradients>{"each_micro_batch",
                                                                         "last_micro_batch"};

/// The action after a step whose loss or gradients are not finite.
enum class NonFinite : std::uint8_t { kStop, kSkip };
template <>
inline constexpr std::array<std::string_view, 2> kWords<NonFinite>{"stop", "skip"};

/// Recipe section `train.dpo`.
struct DpoOptions {
  double beta = 0.1;  ///< how strongly the model is held to the reference
};

/// Recipe section `train`.
struct TrainOptions {
  TrainDevice device = TrainDevice::kAuto;
  std::int64_t steps = 1000;
  std::int64_t epochs = 0;             ///< passes over the data, overrides `steps`; 0: `steps` applies
  std::int64_t micro_batch_size = 1;   ///< samples per rank and forward pass
  std::int64_t global_batch_size = 8;  ///< samples per optimizer step over all ranks
  ReduceGradients reduce_gradients = ReduceGradients::kEachMicroBatch;
  double clip_grad_norm = 1.0;   ///< 0: no clipping
  double clip_grad_value = 0.0;  ///< largest gradient element; 0: no clipping
  NonFinite non_finite = NonFinite::kStop;
  std::int64_t max_skipped_steps = 10;     ///< skip: one more than this many in a row stops the run
  std::int64_t validate_every_steps = 0;   ///< 0: never
  std::int64_t validate_every_epochs = 0;  ///< 0: never
  bool deterministic = false;              ///< GPU: bitwise reproducible runs
  std::int64_t threads_per_rank = 0;       ///< compute threads; 0: this node's cores / ranks on it
  DpoOptions dpo;                          ///< data.kind: preference
};

}  // namespace echelon
