#pragma once
#include <cstdint>
#include <string>

namespace echelon {

/// Recipe section `run`.
struct RunOptions {
  std::string name = "run";           ///< letters, digits, '.', '_', '-'
  std::string dir;                    ///< run folder; empty: runs/<name>
  std::int64_t seed = 1;              ///< initial weights and data order
  bool allow_foreign_folder = false;  ///< a run folder of another user
};

/// Recipe section `metrics`.
struct MetricsOptions {
  std::int64_t every_steps = 10;  ///< a line in metrics.jsonl and in the log every so many steps
  bool unit_grad_norms = false;   ///< also the norm of each unit's gradients
  bool tensorboard = false;       ///< also as TensorBoard's event files
  bool prometheus = false;        ///< also the newest line for Prometheus
  bool csv = false;               ///< also as comma-separated values
};

}  // namespace echelon
