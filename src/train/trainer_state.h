#pragma once
#include <filesystem>
#include <string>

#include "checkpoint/format/trainer_state.h"
#include "train/train_state.h"

/// The parts of a TrainState that are not tensors, as stored in a checkpoint's manifest.
namespace echelon {

/// The JSON text for the manifest. Throws Error(kCheckpoint) for a state that could not be read back.
[[nodiscard]] std::string trainer_state_json(const TrainState& state, int ranks);

/// Throws Error(kData), which names `folder`, if `saved` was trained on other data. `keys`: the recipe's keys
/// that changed them, "data.packing stream -> pad"; empty: none did, as far as is known.
void require_same_data(const checkpoint::TrainerState& saved, const std::filesystem::path& folder,
                       const TrainState& state, const std::string& keys = {});

/// Sets everything in `state` except the tensors.
void apply_trainer_state(const checkpoint::TrainerState& saved, TrainState& state);

}  // namespace echelon
