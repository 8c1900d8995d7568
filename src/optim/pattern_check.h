#pragma once
#include <string>
#include <vector>

#include "model/model.h"
#include "optim/options.h"
#include "shard/options.h"

namespace echelon {

/// A pattern of a recipe that matches nothing, or patterns that leave nothing to train.
struct PatternFault {
  std::string key;   ///< "optim.no_decay"
  std::string text;  ///< one line: the key, the pattern, and existing names
};

/// Returns all pattern faults that training would refuse for this model. Needs no storage.
[[nodiscard]] std::vector<PatternFault> pattern_faults(const Model& model, const ShardOptions& shard,
                                                       const PrecisionOptions& precision,
                                                       const ActivationCheckpointingOptions& activations,
                                                       const OptimOptions& optim);

}  // namespace echelon
