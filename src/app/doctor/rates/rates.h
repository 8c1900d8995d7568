#pragma once
#include <string>
#include <vector>

#include "app/doctor/finding.h"

namespace echelon::app::doctor {

struct Rate {
  std::string host;
  double value = 0;
};

/// The nodes that reach less than `slow` (a share) of what the others do: of the median, for an even number
/// of nodes the upper one, so that of two nodes the slower can be named. `what` and `unit` are for the text:
/// "computes 412 GFLOP/s". `advice`: for slow nodes.
[[nodiscard]] Finding judge_rates(const std::string& name, const std::string& what, const std::string& unit,
                                  const std::vector<Rate>& rates, double slow, const std::string& advice);

}  // namespace echelon::app::doctor
