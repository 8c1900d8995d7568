#pragma once
#include "bootstrap/options.h"
#include "checkpoint/options.h"
#include "data/options.h"
#include "data/tasks/options.h"
#include "optim/options.h"
#include "run/options.h"
#include "shapes/options.h"
#include "shard/options.h"
#include "train/options.h"

namespace echelon {

/// All options of a run. Only load_recipe() fills it; it is const afterwards.
struct Recipe {
  RunOptions run;
  ModelOptions model;
  LoraOptions lora;
  ShardOptions shard;
  PrecisionOptions precision;
  ActivationCheckpointingOptions activation_checkpointing;
  DataOptions data;
  OptimOptions optim;
  ScheduleOptions schedule;
  TrainOptions train;
  EvaluationOptions evaluation;
  CheckpointOptions checkpoint;
  MetricsOptions metrics;
  ClusterOptions cluster;
};

}  // namespace echelon
