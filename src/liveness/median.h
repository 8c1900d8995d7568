#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace echelon {

/// The median; the upper of two middle values, and 0 if empty.
[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace echelon
