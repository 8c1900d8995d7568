#pragma once
#include <string>
#include <vector>

#include "report/record/run_record.h"

namespace echelon::report {

/// The screen on which a run is watched.
struct ViewSize {
  int columns = 80;
  int rows = 24;
  bool color = false;
  bool utf8 = true;
};

/// The lines of the screen, none wider than it, at most as many as it has rows: progress, loss, speed,
/// memory, nodes, the newest save and failure, time left. Untrusted texts in it are harmless to a terminal.
[[nodiscard]] std::vector<std::string> view(const RunRecord& run, const MetricsLog& metrics, double now_s,
                                            const ViewSize& size);

}  // namespace echelon::report
