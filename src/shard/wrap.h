#pragma once
#include <string>
#include <vector>

#include "model/model.h"
#include "shard/groups.h"
#include "shard/precision.h"

/// Which parameters are gathered together: decided from the model's tree and the recipe alone, without
/// storage or ranks.
namespace echelon {

/// One unit: a layer with everything inside it that is in no unit of its own. Units nest as their layers do.
struct UnitPlan {
  std::string name;                     ///< the layer's; "root" for what is in no other unit
  Layer* layer = nullptr;               ///< null for the root
  std::vector<Parameter*> parameters;   ///< may be empty: then the layer only casts
  int depth = 0;                        ///< nesting, the root is 0
  at::ScalarType compute = at::kFloat;  ///< of the weights and of what the layer computes
  at::ScalarType outer = at::kFloat;    ///< of the unit around it: what its output is cast back to
  Strategy::Weights weights = Strategy::Weights::kLayer;
  bool weights_in_backward = true;  ///< an embedding's gradient needs its ids only
  [[nodiscard]] std::int64_t numel() const;
};

/// The units in forward order, the root first. Policies:
///  - transformer: each embedding, block and head (as torchtitan groups them);
///  - size_based: as FSDP1's size_based_auto_wrap_policy: bottom-up, a module whose parameters outside of
///  units
///    are at least min_params; never one that an `exclude` pattern names;
///  - modules: those that a pattern names;
///  - none: the root alone.
/// A module whose precision differs from what is around it becomes a unit of its own. A shared parameter
/// lands in the innermost unit that contains all layers using it. Throws Error(kUsage) for a pattern that
/// matches no module.
[[nodiscard]] std::vector<UnitPlan> plan_units(const Model& model, const ShardOptions& options,
                                               const PrecisionOptions& precision);

/// Modules of the tree, outer before inner, in forward order.
[[nodiscard]] std::vector<Layer*> all_layers(const Model& model);

/// Throws Error(kUsage) naming `key` when `pattern` matches no module's name.
void require_match(const std::string& key, const std::string& pattern, const std::vector<Layer*>& layers);

/// The tree as text, one line for each unit; neighbours that differ in a number only share a line. Bytes:
/// gathered, and this rank's slices (weights, gradients, `state_bytes` of optimizer state a parameter).
[[nodiscard]] std::vector<std::string> describe_units(const std::vector<UnitPlan>& units, int shard_ranks,
                                                      at::ScalarType master, std::int64_t state_bytes);

}  // namespace echelon
