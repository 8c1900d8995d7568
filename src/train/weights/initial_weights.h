#pragma once
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/read/base_note.h"
#include "families/model_weights.h"
#include "shard/sharded_model.h"

/// Weights alone, from a checkpoint or a Hugging Face folder.
namespace echelon {

/// The match between the weights of a checkpoint and those of a model. The same on all ranks.
struct WeightMatch {
  std::vector<std::string> taken;  ///< in both, with the same shape
  std::vector<std::string> fresh;  ///< missing in the checkpoint or of another shape; readable text
  /// Tensors of the checkpoint that the model lacks or has in another shape; readable text.
  std::vector<std::string> dropped;
  std::vector<std::string> new_adapters;  ///< of the model; the checkpoint has none at all
  [[nodiscard]] bool whole() const { return whole_below() && new_adapters.empty(); }
  /// Returns whether all weights except the adapters match.
  [[nodiscard]] bool whole_below() const { return fresh.empty() && dropped.empty(); }
};
/// `base`: what the checkpoint leaves out counts as its own.
[[nodiscard]] WeightMatch match_weights(const checkpoint::Reader& reader,
                                        const std::optional<checkpoint::BaseNote>& base,
                                        const ShardedModel& model);
/// "2 of its tensors are not in this model (a [4], b [4]), 1 of this model's tensors start fresh (c [8, 4])";
/// empty if all match.
[[nodiscard]] std::string describe(const WeightMatch& match);

/// Reads this rank's ranges of the weights that match, converted from any floating-point type. Other weights
/// are unchanged.
void load_weights(const checkpoint::Reader& reader, ShardedModel& model);

/// Reads this rank's ranges of all weights but adapters from a Hugging Face folder. Throws Error(kCheckpoint)
/// naming a weight that is missing or has another shape.
void load_weights(const families::ModelWeights& weights, ShardedModel& model);

}  // namespace echelon
