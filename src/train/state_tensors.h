#pragma once
#include <vector>

#include "checkpoint/format/tensor.h"
#include "checkpoint/read/reader.h"
#include "train/train_state.h"

/// The tensors of a TrainState as the checkpoint library sees them. Each has the type it has in memory, and
/// is cut into flat ranges at slice borders:
///   model/<name>          weights that persist
///   optim/<name>/<state>  for every state of the optimizer
///   ema/<name>            averaged weights, when they are kept
namespace echelon {

/// The pieces that this rank writes; none if another rank has the same slices. On the CPU they refer to the
/// state's memory, which must not change until they are copied. On a GPU they are read from it on demand.
[[nodiscard]] std::vector<checkpoint::Slice> slices_of(const TrainState& state);

/// Total bytes of slices_of().
[[nodiscard]] std::uint64_t bytes_to_save(const TrainState& state);

/// All tensors of the checkpoint in their global shapes; the same on all ranks.
[[nodiscard]] std::vector<checkpoint::TensorInfo> global_tensors(const TrainState& state);

/// Throws Error(kCheckpoint) if the optimizer differs, if only one of the two has averaged weights, or if any
/// tensor differs in name, shape or type; names the first such tensor.
void require_same_model(const checkpoint::Reader& reader, const TrainState& state);

/// Reads this rank's ranges into the state. Requires require_same_model().
void load_slices(const checkpoint::Reader& reader, TrainState& state);

/// The shards that load_slices() reads on this rank, by rising rank of the save.
[[nodiscard]] std::vector<int> shards_to_load(const checkpoint::Reader& reader, const TrainState& state);

}  // namespace echelon
