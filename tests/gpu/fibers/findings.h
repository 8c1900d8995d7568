#pragma once
#include <string>
#include <vector>

namespace echelon::fibers {

enum class Kind {
  kUnwritten,
  kUnordered,
  kPastTheEnd,
  kNotTheDevices,
  kStuck,
  kMisused,
  kUnaligned,
  kTooMuchShared
};

/// Notes what a kernel does that a device would not forgive: once for each kind and place in the code.
void find(Kind kind, const void* place, const std::string& what);
[[nodiscard]] bool is_known(Kind kind, const void* place);
/// What was found since the last call.
[[nodiscard]] std::vector<std::string> take_findings();

}  // namespace echelon::fibers
