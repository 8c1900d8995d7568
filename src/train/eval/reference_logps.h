#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/loader.h"
#include "run/agreed_stop.h"
#include "train/options.h"
#include "train/train_state.h"

/// What DPO compares a model with: log-probabilities of all answers under the weights that the run begins
/// with. They are a file of each of the run's checkpoints, so they cannot be those of other weights.
namespace echelon {

inline constexpr const char* kReferenceFile = "reference.logps";

/// Writes Loader::reference() of `loader` with the weights of `model`; a pass has `rows` samples. The values
/// are the same bits for any number of ranks. Returns false if `stop`, which may be null, was decided
/// meanwhile. Collective. Throws Error(kTraining) on all ranks for values that are not finite.
[[nodiscard]] bool compute_reference(Loader& loader, ShardedModel& model, std::int64_t rows,
                                     Communicator& comm, AgreedStop* stop);

/// Writes Loader::reference() of `loaders`; does nothing where the training data are no preferences. A new
/// run (state.step 0) computes them with the weights of state.model, and `file` becomes what its checkpoints
/// keep; else they are read from `file`, that of the checkpoint. `file` is used on rank 0 alone. Returns
/// early if `stop` was decided meanwhile. Collective. Throws as compute_reference(), Error(kCheckpoint) on
/// all ranks for a file that lacks one of the loaders' data, Error(kData) for more answers than a
/// checkpoint's file can hold.
void settle_reference(const std::vector<Loader*>& loaders, TrainState& state, const TrainOptions& train,
                      Communicator& comm, AgreedStop& stop, std::string& file);

}  // namespace echelon
