#include "optim/pattern_check.h"

#include "base/error.h"
#include "optim/muon/matrices.h"
#include "optim/parameter_groups.h"
#include "shard/wrap.h"

namespace echelon {
namespace {

template <class Value>
std::vector<std::string> patterns_of(const PatternMap<Value>& map) {
  std::vector<std::string> patterns;
  for (const auto& [pattern, value] : map) patterns.push_back(pattern);
  return patterns;
}

/// Adds a fault for each pattern that matches none of `names`: layers or names of parameters.
template <class Names>
void demand(const std::string& key, const std::vector<std::string>& patterns, const Names& names,
            std::vector<PatternFault>& faults) {
  for (const std::string& pattern : patterns) {
    try {
      require_match(key, pattern, names);
    } catch (const Error& error) {
      faults.push_back({key, error.what()});
    }
  }
}

}  // namespace

std::vector<PatternFault> pattern_faults(const Model& model, const ShardOptions& shard,
                                         const PrecisionOptions& precision,
                                         const ActivationCheckpointingOptions& activations,
                                         const OptimOptions& optim) {
  const std::vector<Layer*> layers = all_layers(model);
  const std::vector<std::string> parameters = parameter_names(model);
  std::vector<PatternFault> faults;
  demand("shard.wrap.exclude", shard.wrap.exclude, layers, faults);
  demand("shard.wrap.modules", shard.wrap.modules, layers, faults);
  demand("shard.reshard_overrides", patterns_of(shard.reshard_overrides), layers, faults);
  demand("precision.overrides", patterns_of(precision.overrides), layers, faults);
  demand("activation_checkpointing.modules", activations.modules, layers, faults);
  demand("optim.no_decay", optim.no_decay, parameters, faults);
  demand("optim.muon.adamw", optim.muon.adamw, parameters, faults);
  demand("optim.lr_factors", patterns_of(optim.lr_factors), parameters, faults);
  try {
    require_trained(optim, parameter_names(model, true));
    require_matrices(optim, model.parameters());
  } catch (const Error& error) {
    const std::string text = error.what();
    faults.push_back({text.substr(0, text.find_first_of(": ")), text});
  }
  return faults;
}

}  // namespace echelon
