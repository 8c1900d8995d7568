#pragma once
#include <string>
#include <vector>

#include "app/doctor/finding.h"

namespace echelon::app::doctor {

struct Rate {
  std::string host;
  double value = 0;
};

/// Finds the nodes whose rate is below `slow` (a share) of the median. For an even number of nodes the upper
/// median is used, so that the slower of two nodes can be named. `what` and `unit` are for the text:
/// "computes 412 GFLOP/s". `advice`: what to do about slow nodes.
[[nodiscard]] Finding judge_rates(const std::string& name, const std::string& what, const std::string& unit,
                                  const std::vector<Rate>& rates, double slow, const std::string& advice);

}  // namespace echelon::app::doctor
