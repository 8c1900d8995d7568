#pragma once
#include <string>
#include <vector>

#include "checkpoint/read/reader.h"
#include "checkpoint/write/writer.h"
#include "train/train_state.h"

/// The tensors of a TrainState as the checkpoint library sees them, each in the type it has in memory and cut
/// into flat ranges wherever a slice border falls:
///   model/<name>          weights that persist
///   optim/<name>/<state>  for every state of the optimizer
///   ema/<name>            averaged weights, when they are kept
namespace echelon {

/// What this rank writes: on the CPU the state's own memory, on a device read from there when it is asked
/// for.
[[nodiscard]] std::vector<checkpoint::Slice> slices_of(const TrainState& state);

/// How many bytes that is, without copying any.
[[nodiscard]] std::uint64_t bytes_to_save(const TrainState& state);

/// Every global tensor, the same on all ranks.
[[nodiscard]] std::vector<checkpoint::TensorInfo> global_tensors(const TrainState& state);

/// Throws Error(kCheckpoint) when the checkpoint is of another optimizer, keeps averaged weights where the
/// state does not or the reverse, or else naming the first tensor that differs.
void require_same_model(const checkpoint::Reader& reader, const TrainState& state);

/// Reads this rank's ranges.
void load_slices(const checkpoint::Reader& reader, TrainState& state);

/// Which weights of a model a checkpoint has, and which it has beside them. The same on all ranks.
struct WeightMatch {
  std::vector<std::string> taken;    ///< there in the model's shape
  std::vector<std::string> fresh;    ///< missing there, or of another shape; described for people
  std::vector<std::string> dropped;  ///< there, and no weight of the model or one of another shape
  [[nodiscard]] bool whole() const { return fresh.empty() && dropped.empty(); }
};
[[nodiscard]] WeightMatch match_weights(const checkpoint::Reader& reader, const ShardedModel& model);
/// "2 of its tensors are not in this model (a [4], b [4]), 1 of this model's tensors start fresh (c [8,
/// 4])"; empty when it is whole.
[[nodiscard]] std::string describe(const WeightMatch& match);

/// Reads this rank's ranges of the weights that match, from a checkpoint of any floating-point type and
/// whatever else it holds; the others stay as they are.
void load_weights(const checkpoint::Reader& reader, ShardedModel& model);

}  // namespace echelon
