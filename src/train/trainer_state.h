#pragma once
#include <filesystem>
#include <string>

#include "train/train_state.h"

/// What of a TrainState is not tensors, as the JSON object that a checkpoint's manifest keeps.
namespace echelon {

[[nodiscard]] std::string trainer_state_json(const TrainState& state, int ranks);

/// Sets everything but the tensors. Throws Error(kCheckpoint) naming `folder` for a text that is not one, and
/// Error(kData) when it was trained on other data.
void apply_trainer_state(const std::string& text, const std::filesystem::path& folder, TrainState& state);

}  // namespace echelon
