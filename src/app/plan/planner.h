#pragma once
#include <optional>
#include <string>

#include "forecast/cpu_profile.h"
#include "forecast/outlook.h"
#include "forecast/report.h"
#include "recipe/recipe.h"

namespace echelon::app {

/// The machines of a job that does not exist yet.
struct PlanTarget {
  std::string gpu = "cpu";  ///< a device's name or file; "cpu": ranks on CPUs of unknown speed
  std::string network;      ///< a network's name or file; empty: the device's usual one
  forecast::JobShape job;
  double memory_bytes = 0;  ///< of a rank; 0: the device's
  double disk_bytes_per_s = 1e9;
  double node_days_to_failure = 0;
};

/// The forecast of a recipe on these machines.
struct Plan {
  forecast::Rehearsed rehearsed;
  forecast::OutlookOptions options;
  forecast::Outlook outlook;
  forecast::ReportTitle title;
};

/// Plans recipes for one kind of machine. Loads the engine.
class Planner {
 public:
  /// Throws Error(kUsage) for an unknown device or network and for a faulty profile.
  explicit Planner(PlanTarget target);

  /// Throws Error(kUsage) for a recipe that does not fit the number of ranks.
  [[nodiscard]] Plan plan(const Recipe& recipe) const { return plan(recipe, target_.job); }
  [[nodiscard]] Plan plan(const Recipe& recipe, const forecast::JobShape& job) const;

  [[nodiscard]] const PlanTarget& target() const { return target_; }
  [[nodiscard]] bool on_gpu() const { return device_.has_value(); }

 private:
  [[nodiscard]] forecast::OutlookOptions options_for(const Recipe& recipe,
                                                     const forecast::Rehearsed& rehearsed,
                                                     const forecast::JobShape& job) const;

  PlanTarget target_;
  std::optional<forecast::Device> device_;
  std::optional<forecast::CpuProfile> cpu_;  ///< of calibrated CPU ranks
  std::optional<forecast::Network> network_;
};

}  // namespace echelon::app
