#pragma once
#include <cstdint>

namespace echelon {

/// Off, on, or a count of at least 2 in place of on.
struct SwitchOrCount {
  bool on = true;
  std::int64_t count = 0;  ///< 0: none, only the switch
  bool operator==(const SwitchOrCount&) const = default;
};

}  // namespace echelon
