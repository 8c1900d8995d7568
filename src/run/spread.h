#pragma once
#include <vector>

namespace echelon {

/// A value of all ranks.
struct Spread {
  double min = 0;
  double median = 0;  ///< between the two in the middle where their number is even
  double max = 0;
  int max_rank = 0;  ///< the first rank that has it
};

/// `by_rank`: one value for each rank, at least one.
[[nodiscard]] Spread spread_of(std::vector<double> by_rank);

}  // namespace echelon
