#pragma once
#include <cstdint>
#include <memory>
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
  std::int64_t trained_at = 0;  ///< offset of the first one among those of the slice that are in any group
  [[nodiscard]] std::int64_t numel() const { return end - begin; }
};

/// Parameters that are updated with the same learning rate and weight decay.
struct ParameterGroup {
  double lr_factor = 1.0;
  bool decays = true;              ///< optim.weight_decay applies
  std::vector<SliceRange> ranges;  ///< the parts that this rank holds: adjacent ones merged, by rising offset
};

/// Names of all parameters of the model; `trained`: only of those that it does not freeze.
[[nodiscard]] std::vector<std::string> parameter_names(const Model& model, bool trained = false);

/// Throws Error(kUsage), which names `key`, if `pattern` matches none of `names`.
void require_match(const std::string& key, const std::string& pattern, const std::vector<std::string>& names);

/// Freezes the parameters that `options` freezes; call it before the model is sharded. Throws Error(kUsage)
/// if these are all parameters.
[[nodiscard]] std::unique_ptr<Model> with_frozen(std::unique_ptr<Model> model, const OptimOptions& options);

/// Throws Error(kUsage) if it freezes all parameters of these names.
void require_trained(const OptimOptions& options, const std::vector<std::string>& names);

/// Returns the group that a parameter belongs to, without ranges.
[[nodiscard]] ParameterGroup group_of(const OptimOptions& options, const std::string& name);

/// Groups the parameters by `options.no_decay` and `options.lr_factors`, whose patterns match parameter
/// names. Without patterns there is one group, with one range per unit. Groups without elements on this rank
/// are omitted; padding, frozen parameters and the matrices of Muon belong to no group. Throws Error(kUsage),
/// on all ranks alike, for a pattern that matches no parameter of the model.
[[nodiscard]] std::vector<ParameterGroup> parameter_groups(const OptimOptions& options,
                                                           const ShardedModel& model);

}  // namespace echelon
