#pragma once
#include <cstdint>

namespace echelon {

/// The steps that a profile covers, both included.
struct ProfileRange {
  std::int64_t first = 0;  ///< 0: none
  std::int64_t last = 0;

  [[nodiscard]] bool wanted() const { return first > 0; }
};

inline constexpr std::int64_t kMostProfiledSteps = 100;
/// A rank keeps so many spans (6 MB); more are only counted.
inline constexpr std::int64_t kMostSpans = 65'536;

}  // namespace echelon
