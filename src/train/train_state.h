#pragma once
#include <cstdint>
#include <optional>

#include "checkpoint/read/base_note.h"
#include "data/loader.h"
#include "optim/ema.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "shard/sharded_model.h"
#include "train/save/kept_best.h"

namespace echelon {

/// Everything that must survive the process: the contents of a checkpoint.
struct TrainState {
  ShardedModel& model;
  Optimizer& optim;
  const Loader& data;
  Ema* ema = nullptr;  ///< null: no averaged weights

  std::int64_t step = 0;              ///< completed steps, including skipped ones
  std::int64_t skipped = 0;           ///< steps that changed no weight
  std::int64_t skipped_in_a_row = 0;  ///< the last ones of them
  LossScale loss_scale;
  DataPosition position;  ///< first sample of the next step
  /// Tokens read in all steps so far. Nothing if the run began with a version that did not count them.
  std::optional<std::int64_t> tokens = 0;

  std::optional<BestValidation> best;  ///< so far

  /// The weights that checkpoints leave out, because they lie elsewhere; nothing: they hold all.
  std::optional<checkpoint::BaseNote> base;
};

}  // namespace echelon
