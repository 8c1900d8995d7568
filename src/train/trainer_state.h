#pragma once
#include <filesystem>
#include <string>

#include "checkpoint/format/trainer_state.h"
#include "train/train_state.h"

/// What of a TrainState is not tensors, as a checkpoint's manifest keeps it.
namespace echelon {

/// Throws Error(kCheckpoint) for a state that could not be read back.
[[nodiscard]] std::string trainer_state_json(const TrainState& state, int ranks);

/// Throws Error(kData), naming `folder`, when `saved` was trained on other data.
void require_same_data(const checkpoint::TrainerState& saved, const std::filesystem::path& folder,
                       const TrainState& state);

/// Sets everything but the tensors.
void apply_trainer_state(const checkpoint::TrainerState& saved, TrainState& state);

}  // namespace echelon
