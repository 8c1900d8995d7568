#pragma once
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "train/train_state.h"

/// The tensors of a TrainState as the checkpoint library sees them: "model/<name>", "optim/<name>/exp_avg"
/// and "optim/<name>/exp_avg_sq", fp32, each cut into flat ranges wherever a slice border falls.
namespace echelon {

/// Host copies that slices point into (empty on the CPU, where they point at the state itself).
struct StagedSlices {
  std::vector<checkpoint::Slice> slices;
  std::vector<at::Tensor> staging;
};
[[nodiscard]] StagedSlices stage_slices(const TrainState& state);

/// Every global tensor, the same on all ranks.
[[nodiscard]] std::vector<checkpoint::TensorInfo> global_tensors(const TrainState& state);

/// Throws Error(kCheckpoint) naming the first tensor that differs between the checkpoint and the state's
/// model.
void require_same_model(const checkpoint::Reader& reader, const TrainState& state);

/// Reads this rank's ranges.
void load_slices(const checkpoint::Reader& reader, TrainState& state);

}  // namespace echelon
