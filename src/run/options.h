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
};

}  // namespace echelon
