#pragma once
#include "bootstrap/options.h"
#include "checkpoint/options.h"
#include "data/options.h"
#include "optim/options.h"
#include "run/options.h"
#include "shapes/options.h"
#include "shard/options.h"
#include "train/options.h"

namespace echelon {

/// Everything a run is made from. Filled by load_recipe() only; const from then on.
struct Recipe {
  RunOptions run;
  ModelOptions model;
  ShardOptions shard;
  PrecisionOptions precision;
  ActivationCheckpointingOptions activation_checkpointing;
  DataOptions data;
  OptimOptions optim;
  ScheduleOptions schedule;
  TrainOptions train;
  CheckpointOptions checkpoint;
  MetricsOptions metrics;
  ClusterOptions cluster;
};

}  // namespace echelon
