#pragma once
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "train/train_state.h"

/// The tensors of a TrainState as the checkpoint library sees them, each in the type it has in memory and cut
/// into flat ranges wherever a slice border falls:
///   model/<name>          weights that persist
///   optim/<name>/<state>  for every state of the optimizer
///   ema/<name>            averaged weights, when they are kept
namespace echelon {

/// Host copies that slices point into (empty on the CPU, where they point at the state itself).
struct StagedSlices {
  std::vector<checkpoint::Slice> slices;
  std::vector<at::Tensor> staging;
};
/// What this rank writes.
[[nodiscard]] StagedSlices stage_slices(const TrainState& state);

/// How many bytes that is, without copying any.
[[nodiscard]] std::uint64_t bytes_to_save(const TrainState& state);

/// Every global tensor, the same on all ranks.
[[nodiscard]] std::vector<checkpoint::TensorInfo> global_tensors(const TrainState& state);

/// Throws Error(kCheckpoint) when the checkpoint is of another optimizer, keeps averaged weights where the
/// state does not or the reverse, or else naming the first tensor that differs.
void require_same_model(const checkpoint::Reader& reader, const TrainState& state);

/// Reads this rank's ranges.
void load_slices(const checkpoint::Reader& reader, TrainState& state);

/// The same for the weights alone, from a checkpoint of any floating-point type and whatever else it holds.
/// Throws Error(kCheckpoint) naming the first tensor that is missing or of another shape.
void load_weights(const checkpoint::Reader& reader, ShardedModel& model);

}  // namespace echelon
