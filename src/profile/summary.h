#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "profile/options.h"

namespace echelon::profile {

/// The ranks' reports (rank_report.h) as summary.json: means over ranks, for one step. `forecast`: the run's
/// forecast.json, or null.
[[nodiscard]] nlohmann::json summarize(const ProfileRange& range, const std::vector<nlohmann::json>& ranks,
                                       const nlohmann::json& forecast);

/// Returns the summary as text for people.
[[nodiscard]] std::string summary_text(const nlohmann::json& summary);

}  // namespace echelon::profile
