#pragma once
#include <string>
#include <vector>

namespace echelon::metrics {

/// One metric of Prometheus: a row of NAMES in cluster/parallelcluster/metrics_textfile.py, which is compiled
/// in.
struct Name {
  std::string place;  ///< tag of a value (line.h), without the last word if there is a label: "breakdown_s/"
  std::vector<std::string> words;  ///< with a label: the last words that count; empty: all
  std::string metric;              ///< "echelon_step_part_seconds"
  std::string label;               ///< "part"; empty: one number without a label of its own
  std::string meaning;
};

[[nodiscard]] const std::vector<Name>& names();

/// The table itself. Internal.
extern const char kNamesTable[];

}  // namespace echelon::metrics
