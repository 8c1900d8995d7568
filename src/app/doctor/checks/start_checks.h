#pragma once
#include <string>
#include <vector>

#include "app/doctor/checks/recipe_checks.h"
#include "app/doctor/finding.h"
#include "base/process/slurm_text.h"
#include "recipe/recipe.h"

/// Checks whether a job that is not queued yet can start, as far as a login node can tell.
namespace echelon::app::doctor {

/// The faults of the recipe's data and tokenizer; empty if there are none.
[[nodiscard]] std::vector<Finding> faults_of_data(const Recipe& recipe);

/// The persistent state of CPU ranks fits into the largest of `nodes`. `partitions`: names of the partitions
/// that the job may use, with commas; empty: any.
[[nodiscard]] Finding check_node_memory(const RecipeSize& size, int ranks_per_node,
                                        const std::vector<SlurmRecord>& nodes, const std::string& partitions);

/// The faults of the room for checkpoints and, with `on_cpus`, of the memory of the cluster's nodes, which
/// Slurm is asked for.
[[nodiscard]] std::vector<Finding> faults_of_size(const Recipe& recipe, int ranks, int ranks_per_node,
                                                  const std::string& partitions, bool on_cpus);

}  // namespace echelon::app::doctor
