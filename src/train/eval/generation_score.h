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

/// Lets the model generate for the sources of the first options.validation.generate of `pairs` (all, where
/// there are fewer) and compares the texts with their targets: mean scores over all ranks, which share the
/// samples out. Nothing when `stop` was decided in between. Collective.
[[nodiscard]] std::optional<RougeScores> generation_score(ShardedModel& model, const Loader& pairs,
                                                          const Tokenizer& tokenizer,
                                                          const DataOptions& options,
                                                          const TrainOptions& train, Communicator& comm,
                                                          AgreedStop& stop);

}  // namespace echelon
