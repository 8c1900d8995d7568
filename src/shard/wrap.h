#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/model.h"
#include "shard/groups.h"
#include "shard/precision.h"

/// The division of parameters into units that are gathered together. It depends only on the model's tree and
/// the recipe; it needs neither storage nor ranks.
namespace echelon {

/// One unit: a layer and everything inside it that is not in an inner unit. Units nest as their layers do.
struct UnitPlan {
  std::string name;                     ///< the layer's name; "root" for parameters in no other unit
  Layer* layer = nullptr;               ///< null for the roots
  std::vector<Parameter*> parameters;   ///< may be empty: the layer then only casts
  int depth = 0;                        ///< nesting depth; the root has 0
  at::ScalarType compute = at::kFloat;  ///< type of the gathered weights and of the computation
  at::ScalarType master = at::kFloat;   ///< type of the weights that each rank keeps
  at::ScalarType outer = at::kFloat;    ///< compute type of the enclosing unit, to which the output is cast
  Strategy::Weights weights = Strategy::Weights::kLayer;
  bool fp8 = false;                 ///< matrices of fp8 products alone, gathered in fp8 by training passes
  bool weights_in_backward = true;  ///< false for an embedding, whose gradient needs only the ids
  [[nodiscard]] bool is_head() const { return layer != nullptr && layer->role() == Layer::Role::kHead; }
  [[nodiscard]] std::int64_t numel() const;
  [[nodiscard]] std::int64_t trained_numel() const;  ///< without what is frozen
};

/// The units in forward order, the roots first. Policies:
///  - transformer: each embedding, block and head (as torchtitan groups them);
///  - size_based: FSDP1's size_based_auto_wrap_policy. Bottom-up, every module with at least min_params
///    parameters outside inner units, except those that match an `exclude` pattern;
///  - modules: modules that match a pattern;
///  - none: only the root.
/// A root of which a part is frozen is two units, "root" and "root.trained": there are no gradients of what
/// is frozen, and adapters (LoRA), which no layer holds, are in the second. Of a unit with matrices of fp8
/// products, the root has all the rest, which is small; those of the root itself are a unit "root.fp8".
/// A module whose precision differs from that of its surroundings is always a unit. A shared parameter
/// belongs to the innermost unit that contains all layers that use it. These have the precision of the last
/// of them, the head; where that is not the root's, the parameter is a unit "root.shared". Throws
/// Error(kUsage) for a pattern that matches no module.
[[nodiscard]] std::vector<UnitPlan> plan_units(const Model& model, const ShardOptions& options,
                                               const PrecisionOptions& precision);

/// All layers of the tree, outer before inner, in forward order.
[[nodiscard]] std::vector<Layer*> all_layers(const Model& model);

/// Throws Error(kUsage), which names `key`, if `pattern` matches no layer's name.
void require_match(const std::string& key, const std::string& pattern, const std::vector<Layer*>& layers);

/// Bytes of optimizer state per element of a tensor that is trained.
using StateBytes = std::function<std::int64_t(const Parameter::Part& part)>;

/// The units as text, one line each; units whose names differ only in numbers share a line. Shows the bytes
/// of the gathered weights, and those kept per rank: weights, gradients and states of the optimizer.
[[nodiscard]] std::vector<std::string> describe_units(const std::vector<UnitPlan>& units, int shard_ranks,
                                                      const StateBytes& state_bytes);

}  // namespace echelon
