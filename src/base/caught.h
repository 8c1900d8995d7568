#pragma once
#include <string>

namespace echelon {

/// In a catch block: what the exception that is being handled says, in one line; "out of memory" for
/// std::bad_alloc, "unknown error" for what says nothing. Never throws, not even where no memory is left.
[[nodiscard]] std::string caught() noexcept;

}  // namespace echelon
