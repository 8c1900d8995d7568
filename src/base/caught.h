#pragma once
#include <string>

namespace echelon {

/// Call it in a catch block. Returns the message of the current exception in one line: "out of memory" for
/// std::bad_alloc, which limit to raise for a std::thread that cannot start, "unknown error" if there is
/// none. Never throws, not even out of memory.
[[nodiscard]] std::string caught() noexcept;

}  // namespace echelon
