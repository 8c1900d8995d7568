#pragma once
#include <cstdint>
#include <optional>

#include "data/loader.h"
#include "shard/sharded_model.h"
#include "train/adamw.h"

namespace echelon {

/// Everything that must survive the process: the content of a checkpoint.
struct TrainState {
  ShardedModel& model;
  AdamW& optim;
  const Loader& data;

  std::int64_t step = 0;  ///< optimizer steps done
  DataPosition position;  ///< first sample of the next step

  struct Best {
    std::int64_t step = 0;
    double validation_loss = 0;
  };
  std::optional<Best> best;  ///< lowest validation loss so far
};

}  // namespace echelon
