#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "data/loader.h"
#include "data/options.h"
#include "run/agreed_stop.h"
#include "shard/sharded_model.h"
#include "text/rouge.h"
#include "train/eval/task_scores.h"
#include "train/options.h"

namespace echelon {

/// What was measured between two steps, over all ranks.
struct ValidationResult {
  /// Mean over the targets that are not ignored, or pairs; nothing: there are none, or tasks alone.
  std::optional<double> loss;
  std::vector<std::pair<std::string, double>> losses;  ///< of each source that has a name and a loss
  std::optional<double> accuracy;    ///< of samples with the right class, or pairs in the right order
  std::optional<RougeScores> rouge;  ///< of generated texts, if requested
  std::vector<TaskResult> tasks;     ///< of the evaluation, if one was due
};

/// One pass over the validation samples of each source, or over the first options.validation.batches global
/// batches of them; each sample counts once. Returns nothing if a stop was decided meanwhile. Collective.
[[nodiscard]] std::optional<ValidationResult> validate(ShardedModel& model,
                                                       std::span<const ValidationSource> sources,
                                                       const DataOptions& options, const TrainOptions& train,
                                                       Communicator& comm, AgreedStop& stop);

/// Identifies the samples that validate() measures on.
[[nodiscard]] std::uint32_t validation_fingerprint(std::span<const ValidationSource> sources,
                                                   const DataOptions& options, const TrainOptions& train);

}  // namespace echelon
