#pragma once
#include <optional>

#include "comm/communicator.h"
#include "data/loader.h"
#include "data/options.h"
#include "run/agreed_stop.h"
#include "shard/sharded_model.h"
#include "text/rouge.h"
#include "text/tokenizer.h"
#include "train/options.h"

namespace echelon {

/// Generates texts for the sources of the first options.validation.generate samples of `pairs` (at most all),
/// distributed over the ranks, and compares them with the targets. Returns the mean ROUGE scores over all
/// ranks; nothing if a stop was decided meanwhile. Collective.
[[nodiscard]] std::optional<RougeScores> generation_score(ShardedModel& model, const Loader& pairs,
                                                          const Tokenizer& tokenizer,
                                                          const DataOptions& options,
                                                          const TrainOptions& train, Communicator& comm,
                                                          AgreedStop& stop);

}  // namespace echelon
