#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "app/engine/accelerator.h"
#include "forecast/rehearsed.h"
#include "recipe/recipe.h"
#include "train/loop_parts.h"
#include "train/save/checkpointer.h"

namespace echelon::app {

/// What a run was expected to need, beside what it needs: in rank 0's log and in forecast.json of the run
/// folder. Nothing of it may end a run: what goes wrong is a warning.
class ForecastCheck {
 public:
  /// Rehearses a run on CPUs, before any thread computes. A run on GPUs is rehearsed later by a process of
  /// its own, because the recording device would stay known to PyTorch in this one.
  ForecastCheck(const Recipe& recipe, const JobInfo& info, const Compute& compute);

  /// Writes into the run folder, whose recipe.yaml exists when the result is called with what was measured.
  /// This object outlives the result.
  [[nodiscard]] std::function<void(const MeasuredStep&)> listen(std::filesystem::path folder) {
    folder_ = std::move(folder);
    return [this](const MeasuredStep& step) { measured(step); };
  }
  /// The first save counts.
  void saved(const Checkpointer::Saved& saved);

 private:
  void measured(const MeasuredStep& step);
  void rehearse_here(const Recipe& recipe, const JobInfo& info);
  void rehearse_elsewhere();
  void compare(const MeasuredStep& step);
  void compare(const Checkpointer::Saved& saved);
  void write() const;

  forecast::JobShape job_;
  bool gpu_ = false;
  std::string device_;  ///< profile of the GPU; empty: not known
  std::filesystem::path folder_;
  nlohmann::json predicted_;  ///< as `echelon plan --json`; null: nothing
  nlohmann::json measured_;   ///< null: nothing yet
};

}  // namespace echelon::app
