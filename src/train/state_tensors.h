#pragma once
#include <string>
#include <vector>

#include "checkpoint/read/reader.h"
#include "checkpoint/write/writer.h"
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

/// How the weights of a checkpoint match those of a model. The same on all ranks.
struct WeightMatch {
  std::vector<std::string> taken;  ///< in both, with the same shape
  std::vector<std::string> fresh;  ///< missing in the checkpoint or of another shape; readable text
  /// In the checkpoint, but not in the model or of another shape; readable text.
  std::vector<std::string> dropped;
  [[nodiscard]] bool whole() const { return fresh.empty() && dropped.empty(); }
};
[[nodiscard]] WeightMatch match_weights(const checkpoint::Reader& reader, const ShardedModel& model);
/// "2 of its tensors are not in this model (a [4], b [4]), 1 of this model's tensors start fresh (c [8, 4])";
/// empty if all match.
[[nodiscard]] std::string describe(const WeightMatch& match);

/// Reads this rank's ranges of the weights that match, converted from any floating-point type. Other weights
/// are unchanged.
void load_weights(const checkpoint::Reader& reader, ShardedModel& model);

}  // namespace echelon
