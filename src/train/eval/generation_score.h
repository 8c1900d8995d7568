#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "data/loader.h"
#include "data/options.h"
#include "run/agreed_stop.h"
#include "shard/sharded_model.h"
#include "text/rouge.h"
#include "text/tokenizer.h"
#include "train/options.h"

namespace echelon {

/// The options for turning generated ids into texts.
struct TextOptions {
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null: no texts are asked for
  std::vector<std::int64_t> end_ids;           ///< each ends a text
};

/// Generates texts for the sources of the first options.validation.generate samples of `pairs` (at most all),
/// distributed over the ranks, and compares them with the targets. Returns the mean ROUGE scores over all
/// ranks; nothing if a stop was decided meanwhile. Collective.
[[nodiscard]] std::optional<RougeScores> generation_score(ShardedModel& model, const Loader& pairs,
                                                          const TextOptions& text, const DataOptions& options,
                                                          const TrainOptions& train, Communicator& comm,
                                                          AgreedStop& stop);

}  // namespace echelon
