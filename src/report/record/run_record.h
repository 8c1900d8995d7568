#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/files/fs.h"
#include "base/options/choice.h"
#include "report/record/lanes.h"
#include "report/record/life.h"
#include "report/record/metrics_log.h"
#include "report/record/missing.h"
#include "report/record/nodes.h"
#include "report/record/recipe_values.h"
#include "report/record/run_log.h"

namespace echelon::report {

/// The state of a run, from its files. kSilent: it is recorded as running, but its files have not changed for
/// longer than a running run leaves them.
enum class RunState : std::uint8_t { kUnknown, kRunning, kSilent, kFinished, kStopped, kFailed, kKilled };
}  // namespace echelon::report
template <>
inline constexpr std::array<std::string_view, 7> echelon::kWords<echelon::report::RunState>{
    "unknown", "running", "silent", "finished", "stopped", "failed", "killed"};
namespace echelon::report {

/// A committed checkpoint that is on disk.
struct Checkpoint {
  std::int64_t step = 0;
  std::string folder;
  double time_s = 0;  ///< of its commit
};

/// The predicted and the measured value of one number.
struct Prediction {
  std::string name;
  std::string group;  ///< "memory", "memory category", "traffic", "time", "checkpoint"
  bool bytes = false;
  std::optional<double> predicted;
  std::optional<double> measured;
};

/// The content of a run folder. `missing` lists the parts that are missing or unusable.
struct RunRecord {
  fs::Path folder;
  std::string name;
  RunState state = RunState::kUnknown;
  double changed_s = 0;  ///< when the newest of its files was written
  std::int64_t step = 0;
  std::optional<std::int64_t> steps;  ///< planned
  std::vector<Start> starts;
  Account account;
  RunLog log;
  std::vector<Checkpoint> checkpoints;  ///< by step
  std::vector<std::string> unfinished;  ///< folders of saves without a commit
  std::vector<Prediction> predictions;
  std::vector<RecipeValue> recipe;
  std::string recipe_text;
  Lanes lanes;
  NodeSigns nodes;  ///< the last states of the nodes that rank 0 received
  Missing missing;

  [[nodiscard]] bool has_ended() const { return state != RunState::kRunning && state != RunState::kUnknown; }
  [[nodiscard]] std::string recipe_value(std::string_view key) const;
  /// Seconds that the steps to come take at the last one's pace; nothing if it is not running, or they are
  /// not known.
  [[nodiscard]] std::optional<double> left_s(const MetricsLog& metrics) const;
};

/// Returns whether `folder` has a file that only runs write; a recipe.yaml alone is also in checkpoints.
[[nodiscard]] bool holds_run(const fs::Path& folder);

/// Reads a run folder again and again while the run goes on; of metrics.jsonl only what is new.
class RunReader {
 public:
  /// Throws Error(kUsage) for a folder that does not exist or holds no file of a run.
  explicit RunReader(const fs::Path& folder);

  /// `now_s`: seconds since 1970. Nothing in the folder makes it throw.
  [[nodiscard]] RunRecord read(double now_s);
  [[nodiscard]] const MetricsLog& metrics() const { return metrics_; }

 private:
  void read_log(Missing& missing);

  fs::Path folder_;
  MetricsLog metrics_;
  RunLog log_;
  Missing log_missing_;
  double log_again_s_ = 0;  ///< of the steady clock; reading long logs takes a small part of the time only
};

}  // namespace echelon::report
