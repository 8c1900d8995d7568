#pragma once
#include "app/engine/accelerator.h"
#include "data/loader.h"
#include "recipe/recipe.h"
#include "shard/sharded_model.h"

namespace echelon::app {

/// The fused attention that a GPU run uses; empty on the CPU. Throws Error if no fused attention supports the
/// model.
[[nodiscard]] std::string attention_of(const Compute& compute, const Recipe& recipe);

[[nodiscard]] EngineOptions engine_options(const Recipe& recipe, int ranks_per_node,
                                           const std::shared_ptr<Activity>& activity);

/// Logs the first lines of a run: devices, tree of units, memory, data. `resident_before`: resident bytes of
/// the process before the model was built.
void describe_run(const Job& job, const Compute& compute, const ShardedModel& model, const Loader& data,
                  const Recipe& recipe, std::int64_t resident_before);

}  // namespace echelon::app
