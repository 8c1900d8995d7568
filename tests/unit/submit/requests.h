#pragma once
#include "app/submit/script.h"
#include "support/refusal.h"

/// What several tests of this folder start from.
namespace echelon::submit {

inline Options four_nodes() {
  Options options;
  options.recipe = "recipes/smoke.yaml";
  options.nodes = 4;
  options.tasks_per_node = 2;
  return options;
}

inline Allocation eight_ranks() {
  return {.nodes = 4, .tasks_per_node = 2, .time_s = 86400, .stop_before_s = 60};
}

inline Place on_fsx() {
  return {.work_dir = "/fsx/work",
          .run_dir = "/fsx/work/runs/smoke",
          .submission = "submissions/1",
          .supervisor = "/fsx/echelon/bin/echelon",
          .program = "/fsx/echelon/bin/echelon",
          .job_name = "smoke"};
}

using test::error_of;

}  // namespace echelon::submit
