#pragma once
#include <filesystem>

#include "checkpoint/options.h"
#include "comm/communicator.h"
#include "train/run_folder.h"
#include "train/train_state.h"

namespace echelon {

/// Brings `state` to the newest committed checkpoint of the run, whatever world size and strategy wrote it;
/// passes over damaged ones with a warning. False when there is none. Collective. Throws Error(kCheckpoint)
/// for a checkpoint of another model or when all are damaged, Error(kData) for one of other data,
/// Error(kUsage) when options.resume forbids or demands what is found.
bool restore_latest(const CheckpointOptions& options, const RunFolder& folder, Communicator& comm,
                    TrainState& state);

/// Takes the weights, and nothing else, from a checkpoint of the same model in any floating-point type;
/// averaged weights start from them. Collective. Throws Error(kCheckpoint) naming the first tensor that
/// differs.
void load_initial_weights(const std::filesystem::path& from, Communicator& comm, TrainState& state);

}  // namespace echelon
