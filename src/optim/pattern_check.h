#pragma once
#include <string>
#include <vector>

#include "model/model.h"
#include "optim/options.h"
#include "shard/options.h"

namespace echelon {

/// A recipe's pattern that names nothing.
struct PatternFault {
  std::string key;   ///< "optim.no_decay"
  std::string text;  ///< one line, with the key, the pattern and names that exist
};

/// Every pattern that names no module, or no parameter, of the model; training refuses each of them. Needs
/// shapes only.
[[nodiscard]] std::vector<PatternFault> pattern_faults(const Model& model, const ShardOptions& shard,
                                                       const PrecisionOptions& precision,
                                                       const ActivationCheckpointingOptions& activations,
                                                       const OptimOptions& optim);

}  // namespace echelon
