#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/folder/retention.h"
#include "checkpoint/options.h"
#include "checkpoint/read/reader.h"
#include "comm/communicator.h"
#include "run/run_folder.h"
#include "train/memory/run_memory.h"
#include "train/train_state.h"
#include "train/weights/initial_weights.h"

namespace echelon {

/// The differences of a checkpoint's recipe from the current one, e.g. "model.heads 4 -> 8"; empty if there
/// are none.
struct Differences {
  std::string model{};
  std::string base{};  ///< `model` without adapters that only one of the two has
  std::string data{};  ///< in the keys that decide which samples a step trains on
};

/// Called on rank 0 for a checkpoint that is about to be loaded. An Error refuses the checkpoint on all
/// ranks.
using Inspect = std::function<Differences(const checkpoint::Reader&)>;

/// The place where a run's state was found.
struct Restored {
  std::string memory;            ///< "nodes n0, n1"; empty: on disk
  checkpoint::KnownSteps known;  ///< the one on disk that was read whole, and those that were found damaged
};

/// Restores `state` from the newest committed checkpoint of the run, written with any world size and
/// strategy, or from the nodes' memory (null: none) if a newer one is whole there. Damaged checkpoints, also
/// those with an invalid trainer state, are skipped with a warning. Returns nothing if there is none.
/// Collective. Throws Error(kCheckpoint) for a checkpoint of another model, or if all on disk are damaged;
/// Error(kPeer) for one that cannot be read, also not some seconds later: that says nothing about its
/// content, so nothing older is taken instead, and a start on other nodes may read it; Error(kData) for one
/// of other data; Error(kUsage) if options.resume does not allow what was found. Tensors that a checkpoint
/// leaves out are read from the base that it names or, if that is gone, from `base` (empty: nowhere else).
/// Error(kCheckpoint) if they have changed.
[[nodiscard]] std::optional<Restored> restore_latest(const CheckpointOptions& options,
                                                     const RunFolder& folder, Communicator& comm,
                                                     TrainState& state, const Inspect& inspect = {},
                                                     RunMemory* memory = nullptr,
                                                     const std::string& base = {});

/// Loads only the weights from options.init_from, of any floating-point type; averaged weights start from
/// them. Returns which were loaded. Collective. Throws Error(kCheckpoint), which names the differences, for a
/// checkpoint of another model. With options.init_partial it warns instead and loads the tensors that match,
/// if there are any. Without it, from now on checkpoints of a model with adapters leave out the tensors that
/// are in this one or its base: state.base.
WeightMatch load_initial_weights(const CheckpointOptions& options, Communicator& comm, TrainState& state,
                                 const Inspect& inspect = {});

/// Loads the weights of a Hugging Face folder (model.from), which must hold all. `inspect` is called on rank
/// 0, before tensors are read. Sets state.base where the model has adapters.
void load_folder_weights(const std::filesystem::path& folder, Communicator& comm, TrainState& state,
                         const std::function<void(const families::ModelWeights&)>& inspect = {});

}  // namespace echelon
