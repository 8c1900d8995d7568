#pragma once
#include "app/engine/accelerator.h"
#include "data/loader.h"
#include "recipe/recipe.h"
#include "shard/sharded_model.h"

namespace echelon::app {

/// Which fused attention a GPU run uses; empty on the CPU. Throws Error for what would need plain products.
[[nodiscard]] std::string attention_of(const Compute& compute, const Recipe& recipe);

[[nodiscard]] EngineOptions engine_options(const Recipe& recipe, int ranks_per_node,
                                           const std::shared_ptr<Activity>& activity);

/// The first lines of a run: who computes what, the tree of units, memory, data. `resident_before`: bytes of
/// the process before it held a model.
void describe_run(const Job& job, const Compute& compute, const ShardedModel& model, const Loader& data,
                  const Recipe& recipe, std::int64_t resident_before);

}  // namespace echelon::app
