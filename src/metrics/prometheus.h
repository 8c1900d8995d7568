#pragma once
#include <filesystem>
#include <string>

#include "metrics/line.h"

namespace echelon::metrics {

/// The label of a run whose metrics.jsonl is `source`: the name of its folder, as the collector of a cluster
/// (metrics_textfile.py) calls it.
[[nodiscard]] std::string run_label(const std::filesystem::path& source);

/// A line of run `run` in the text format of Prometheus, under the names of names.h. `run` becomes the label
/// of that name; control characters in it are shown as text.
[[nodiscard]] std::string prometheus_page(const std::string& run, const Line& line);

}  // namespace echelon::metrics
