#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "optim/options.h"
#include "shard/sharded_model.h"

namespace echelon {

/// Elements [begin, end) of a unit's slice on this rank.
struct SliceRange {
  std::size_t unit = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Parameters that are updated with the same numbers.
struct ParameterGroup {
  double lr_factor = 1.0;
  bool decays = true;  ///< optim.weight_decay applies
  std::vector<SliceRange>
      ranges;  ///< what this rank holds of them: as few and long as can be, by rising place
};

/// Throws Error(kUsage) naming `key` when `pattern` matches none of these parameters.
void require_match(const std::string& key, const std::string& pattern, const std::vector<std::string>& names);

/// Sorts the parameters by `options.no_decay` and `options.lr_factors`, whose patterns are matched with their
/// names; without patterns, one group of one range a unit. A group of which this rank holds nothing is left
/// out; padding belongs to none. Throws Error(kUsage), on every rank alike, for a pattern that matches no
/// parameter of the model and for a factor that is not a number >= 0.
[[nodiscard]] std::vector<ParameterGroup> parameter_groups(const OptimOptions& options,
                                                           const ShardedModel& model);

}  // namespace echelon
