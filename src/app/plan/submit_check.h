#pragma once
#include <string>

#include "app/plan/planner.h"
#include "recipe/load.h"

namespace echelon::app {

/// The device in "h100:8" or "gpu:h100:8,lustre" (options of Slurm), if it is one whose profile is known;
/// else empty. A name without the size of its memory ("a100") is the one with most; one that Slurm found by
/// itself ("nvidia_h100_80gb_hbm3") is known, too.
[[nodiscard]] std::string device_in(const std::string& gpus_per_node, const std::string& gres);

/// Throws Error(kUsage), with the best change that fits, for a recipe that a rank's memory cannot hold on
/// these machines. Does nothing where no limit is known; without the engine it warns that nothing was
/// checked.
void require_fit(const LoadedRecipe& loaded, const PlanTarget& target);

}  // namespace echelon::app
