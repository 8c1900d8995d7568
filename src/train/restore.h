#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "checkpoint/options.h"
#include "checkpoint/read/reader.h"
#include "comm/communicator.h"
#include "run/run_folder.h"
#include "train/state_tensors.h"
#include "train/train_state.h"

namespace echelon {

/// What only the caller can tell of a checkpoint: called on rank 0 for one that is about to be loaded.
/// Returns how the model that it was trained as differs from the one at hand, "model.heads 4 -> 8"; empty: it
/// does not. An Error refuses the checkpoint on all ranks.
using Inspect = std::function<std::string(const checkpoint::Reader&)>;

/// Brings `state` to the newest committed checkpoint of the run, whatever world size and strategy wrote it;
/// passes over damaged ones and ones
/// with an unsound trainer state with a warning. False when there is none. Collective. Throws
/// Error(kCheckpoint) for a checkpoint of another model or when all are damaged, Error(kData) for one of
/// other data, Error(kUsage) when options.resume forbids or demands what is found.
bool restore_latest(const CheckpointOptions& options, const RunFolder& folder, Communicator& comm,
                    TrainState& state, const Inspect& inspect = {});

/// Takes the weights, and nothing else, from options.init_from in any floating-point type; averaged weights
/// start from them. Returns which were taken. Collective. A checkpoint of another model is Error(kCheckpoint)
/// naming what differs, or with options.init_partial a warning: then what fits is taken.
WeightMatch load_initial_weights(const CheckpointOptions& options, Communicator& comm, TrainState& state,
                                 const Inspect& inspect = {});

}  // namespace echelon
