#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace echelon::supervise {

/// The command line of `echelon supervise`. An empty text or list means: not given.
struct Options {
  std::vector<std::string> program;       ///< the command of a rank
  std::vector<std::string> srun_options;  ///< added to srun's, such as those of a container
  std::string run_dir;                    ///< not given: asked of the program
  bool allow_foreign_folder = false;      ///< run.allow_foreign_folder; asked where run_dir is
  std::vector<std::int64_t> fewer_nodes;  ///< with which a run may continue that lost nodes; asked as well

  std::int64_t max_requeues = 100;  ///< 0: the job is never requeued
  std::int64_t max_restarts = 20;   ///< in place, in one start of the job; 0: never
  std::int64_t spare_nodes = 0;     ///< of the job's nodes, those that take the place of lost ones
  std::int64_t max_same_step = 3;   ///< failures in a row at one step that end the job; 0: any number
};

}  // namespace echelon::supervise
