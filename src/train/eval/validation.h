#pragma once
#include <cstdint>
#include <optional>

#include "comm/communicator.h"
#include "data/loader.h"
#include "data/options.h"
#include "run/agreed_stop.h"
#include "shard/sharded_model.h"
#include "text/rouge.h"
#include "train/options.h"

namespace echelon {

/// Result of a validation pass, over all ranks.
struct ValidationResult {
  double loss = 0;                   ///< mean over the targets that are not ignored
  std::optional<double> accuracy;    ///< fraction of samples with the right class; only for classifiers
  std::optional<RougeScores> rouge;  ///< of generated texts, if requested
};

/// One pass over the validation samples, or over the first options.validation.batches global batches of them;
/// each sample counts once. Returns nothing if a stop was decided meanwhile. Collective.
[[nodiscard]] std::optional<ValidationResult> validate(ShardedModel& model, const Loader& samples,
                                                       const DataOptions& options, const TrainOptions& train,
                                                       Communicator& comm, AgreedStop& stop);

}  // namespace echelon
