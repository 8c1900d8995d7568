#pragma once
#include <cstdint>
#include <string>

namespace echelon {

/// Allowed integers, both ends included.
struct IntegerRange {
  std::int64_t low;
  std::int64_t high;
  [[nodiscard]] bool holds(std::int64_t value) const { return low <= value && value <= high; }
};

/// Allowed numbers. NaN is in none.
struct NumberRange {
  double low;
  double high;
  bool low_excluded = false;
  bool high_excluded = false;
  [[nodiscard]] bool holds(double value) const {
    return (low_excluded ? value > low : value >= low) && (high_excluded ? value < high : value <= high);
  }
};

/// "an integer from 1 to 8"
[[nodiscard]] std::string words(const IntegerRange& range);
/// "greater than 0 and at most 1", "from 0 to less than 1"
[[nodiscard]] std::string words(const NumberRange& range);

inline constexpr NumberRange kAboveZeroToOne{0.0, 1.0, true, false};
inline constexpr NumberRange kBelowOne{0.0, 1.0, false, true};

}  // namespace echelon
