#pragma once
#include <string>
#include <vector>

#include "report/record/run_record.h"

namespace echelon::report {

/// A run and its curves.
struct RunView {
  const RunRecord& run;
  const MetricsLog& metrics;
};

struct PageOptions {
  double now_s = 0;     ///< when the page is made, since 1970
  double reload_s = 0;  ///< the page loads itself again after this time; 0: it does not
  std::string version;  ///< of this program
};

/// The first lines of every page: a file that begins otherwise was not made here.
inline constexpr const char* kPageBegin = "<!doctype html>\n<!-- made by echelon report -->\n";

/// The page of one run, or that compares several: one HTML text that needs no other file and no network.
[[nodiscard]] std::string page(const std::vector<RunView>& runs, const PageOptions& options);

}  // namespace echelon::report
