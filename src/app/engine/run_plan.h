#pragma once
#include "app/engine/accelerator.h"
#include "data/loader.h"
#include "recipe/recipe.h"
#include "shard/sharded_model.h"

namespace echelon::app {

/// What a run resolves from its recipe once, at its start, and passes on.
struct RunPlan {
  std::uint64_t seed = 1;
  Precision precision;
  std::string attention;  ///< the fused attention that a GPU run uses; empty on the CPU
  EngineOptions engine;
};

/// Resolves the recipe, and sets what the GPU libraries of this process may round. Throws Error if the device
/// does not support a type of the recipe, no fused attention supports the model, or groups that are to be
/// nodes differ in size.
[[nodiscard]] RunPlan plan_run(const Recipe& recipe, const Compute& compute, const JobInfo& job,
                               const std::shared_ptr<Activity>& activity);

[[nodiscard]] EngineOptions engine_options(const Recipe& recipe, int ranks_per_node,
                                           const std::shared_ptr<Activity>& activity);

/// Logs the first lines of a run: devices, tree of units, memory, data. `resident_before`: resident bytes of
/// the process before the model was built.
void describe_run(const Job& job, const Compute& compute, const ShardedModel& model, const Loader& data,
                  const Recipe& recipe, const RunPlan& plan, std::int64_t resident_before);

}  // namespace echelon::app
