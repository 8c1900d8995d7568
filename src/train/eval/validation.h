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

/// What one validation pass found, over all ranks.
struct ValidationResult {
  double loss = 0;                   ///< mean over the predictions that count
  std::optional<double> accuracy;    ///< share of samples whose class is right, where there are classes
  std::optional<RougeScores> rouge;  ///< of generated texts, where any were asked for
};

/// One pass over the validation samples, or over options.validation.batches global batches of them; each
/// sample counts once. Nothing when `stop` was decided in between. Collective.
[[nodiscard]] std::optional<ValidationResult> validate(ShardedModel& model, const Loader& samples,
                                                       const DataOptions& options, const TrainOptions& train,
                                                       Communicator& comm, AgreedStop& stop);

}  // namespace echelon
