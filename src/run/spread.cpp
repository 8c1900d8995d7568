#include "run/spread.h"

#include <algorithm>

namespace echelon {

Spread spread_of(std::vector<double> by_rank) {
  const auto largest = std::ranges::max_element(by_rank);
  Spread spread{.max = *largest, .max_rank = static_cast<int>(largest - by_rank.begin())};
  std::ranges::sort(by_rank);
  const std::size_t half = by_rank.size() / 2;
  spread.min = by_rank.front();
  spread.median = by_rank.size() % 2 == 1 ? by_rank[half] : (by_rank[half - 1] + by_rank[half]) / 2;
  return spread;
}

}  // namespace echelon
