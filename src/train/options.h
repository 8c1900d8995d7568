#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace echelon {

/// Recipe section `run`.
struct RunOptions {
  std::string name = "run";  ///< letters, digits, '.', '_', '-'
  std::string dir;           ///< run folder; empty: runs/<name>
  std::int64_t seed = 1;     ///< initial weights and data order
};

/// Recipe section `optim`.
struct OptimOptions {
  std::string kind = "adamw";  ///< adamw (Loshchilov & Hutter, decoupled weight decay)
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
};

/// Recipe section `schedule`: factor on optim.lr by step.
struct ScheduleOptions {
  std::string kind = "warmup_cosine";  ///< constant | warmup_cosine
  std::int64_t warmup_steps = 0;
  double warmup_start_factor = 0.1;
  double min_lr = 0.0;  ///< absolute learning rate at the last step
};

/// Recipe section `train`.
struct TrainOptions {
  std::string device = "auto";  ///< auto | cpu | cuda
  std::int64_t steps = 1000;
  std::int64_t micro_batch_size = 1;      ///< sequences per rank and forward pass
  std::int64_t global_batch_size = 8;     ///< sequences per optimizer step over all ranks
  double clip_grad_norm = 1.0;            ///< 0: no clipping
  std::int64_t validate_every_steps = 0;  ///< 0: never
  std::int64_t threads_per_rank = 0;      ///< compute threads; 0: this node's cores / ranks on it
};

/// Recipe section `metrics`.
struct MetricsOptions {
  std::int64_t every_steps = 10;  ///< a line in metrics.jsonl and in the log every so many steps
};

}  // namespace echelon
