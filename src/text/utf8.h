#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace echelon::data {

/// Offset of the first byte that is not well-formed UTF-8 as utf8_length() has it; npos when all is well.
[[nodiscard]] std::size_t find_invalid_utf8(std::string_view text);

/// `text` with U+FFFD in place of every maximal part of an ill-formed sequence (Unicode 15, chapter 3.9), as
/// Python's errors="replace" does.
[[nodiscard]] std::string replace_invalid_utf8(std::string_view text);

}  // namespace echelon::data
