#pragma once
#include <memory>

#include "base/not_copied.h"
#include "comm/communicator.h"
#include "data/loader.h"
#include "recipe/recipe.h"
#include "train/train_state.h"
#include "train/train_step.h"

namespace echelon::app {

/// Everything that the training steps of a recipe need, built as for a run, with samples that need no files.
struct Stage : NotCopied {
  /// `comm`: all ranks, for tensors on `device`; `on_host`: all ranks, for what they agree on. Both outlive
  /// this object.
  Stage(const Recipe& recipe, Communicator& comm, Communicator& on_host, at::Device device,
        int ranks_per_node);

  void step();  ///< one training step

  std::shared_ptr<Activity> activity = std::make_shared<Activity>();
  ShardedModel model;
  std::unique_ptr<Optimizer> optim;
  std::unique_ptr<Ema> ema;
  std::unique_ptr<Loader> data;
  TrainState state;

 private:
  LoopOptions options_;
  StepVotes nobody_;
  TrainStep step_;
};

}  // namespace echelon::app
