#pragma once
#include <string>
#include <vector>

#include "app/engine/engine.h"

namespace echelon::app {

/// A run of the product that is looked at from outside only.
struct Trial {
  std::string name;
  int ranks = 1;
  Recipe recipe;
};

/// The results of a run: its metrics, NaN where a line has no number, and its newest checkpoint.
struct Left : Trained {
  std::vector<double> loss_scale;  ///< after each step; of fp16
  Tensors moments;                 ///< SGD's momentum, else empty
};

/// Trains by `echelon train`, with run.dir in the recipe, and reads what it left. Goes on from a checkpoint
/// that is there. Throws Error with the run's exit code and its last line of output if it fails, and
/// Error(kTraining) if it did not leave every step.
[[nodiscard]] Left run_trial(const Trial& trial);

/// Removes a run's checkpoints behind `step`, so that it goes on from there when it is started again.
void go_back(const Recipe& recipe, std::int64_t step);

}  // namespace echelon::app
