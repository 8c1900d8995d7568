#pragma once
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <thread>

#include "app/engine/accelerator.h"
#include "base/mutex.h"
#include "forecast/rehearsed.h"
#include "train/loop_parts.h"
#include "train/options.h"
#include "train/save/checkpointer.h"

namespace echelon::app {

/// Compares a run's measured needs with its forecast, in rank 0's log and in forecast.json of the run folder.
/// The forecast comes from `echelon plan`, which runs as a process of the lowest priority once the run has
/// trained for ten seconds. No rank waits for it, and a run that ends before has none. A start uses a
/// forecast of the same recipe and ranks if the folder holds one. A failure is a warning and never ends a
/// run. Thread-safe.
class ForecastCheck {
 public:
  ForecastCheck(const TrainOptions& train, const JobInfo& info, const Compute& compute);

  /// Returns a function that receives the measurements and writes into the run folder, whose recipe.yaml
  /// exists when it is called. This object must outlive the function.
  [[nodiscard]] std::function<void(const MeasuredStep&)> listen(std::filesystem::path folder) {
    folder_ = std::move(folder);
    return [this](const MeasuredStep& step) { measured(step); };
  }
  /// The first save counts.
  void saved(const Checkpointer::Saved& saved);

 private:
  void measured(const MeasuredStep& step);
  /// Uses the forecast in the folder, or starts a thread that makes one.
  void begin() ECHELON_REQUIRES(mutex_);
  void make(const std::stop_token& stop);
  /// Null: the run stops.
  [[nodiscard]] nlohmann::json planned(const std::stop_token& stop) const;
  void compare_steps() const ECHELON_REQUIRES(mutex_);
  void compare_saves() const ECHELON_REQUIRES(mutex_);
  void write() const ECHELON_REQUIRES(mutex_);

  forecast::JobShape job_;
  bool gpu_ = false;
  std::string device_;     ///< profile of the GPU; empty: not known
  std::string overrides_;  ///< of the recipe, which the ranks have resolved; empty: none
  std::filesystem::path folder_;
  Mutex mutex_;
  std::condition_variable_any stopped_;
  nlohmann::json subject_ ECHELON_GUARDED_BY(mutex_);    ///< what the forecast is of
  nlohmann::json predicted_ ECHELON_GUARDED_BY(mutex_);  ///< as `echelon plan --json`; null: nothing
  nlohmann::json measured_ ECHELON_GUARDED_BY(mutex_);   ///< null: nothing yet
  std::jthread maker_;                                   ///< last: it uses the others
};

}  // namespace echelon::app
