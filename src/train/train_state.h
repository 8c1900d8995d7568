#pragma once
#include <cstdint>
#include <optional>

#include "data/loader.h"
#include "optim/ema.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "shard/sharded_model.h"
#include "train/save/kept_best.h"

namespace echelon {

/// Everything that must survive the process: the content of a checkpoint.
struct TrainState {
  ShardedModel& model;
  Optimizer& optim;
  const Loader& data;
  Ema* ema = nullptr;  ///< null: none is kept

  std::int64_t step = 0;     ///< steps done, skipped ones included
  std::int64_t skipped = 0;  ///< of these, how many changed no weight: their gradients were not finite
  LossScale loss_scale;
  DataPosition position;  ///< first sample of the next step
  /// Of sequences, read in all steps so far. Nothing: the run began with a version that did not count.
  std::optional<std::int64_t> tokens = 0;

  using Best = BestValidation;
  std::optional<Best> best;  ///< so far
};

}  // namespace echelon
