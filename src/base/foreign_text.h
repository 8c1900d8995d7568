#pragma once
#include <cstddef>
#include <string>
#include <string_view>

/// Text that others wrote (paths, what stands in files, what a child process says), made fit to be shown.
namespace echelon {

/// `text` in one line of valid UTF-8 that changes nothing on a terminal but the place it stands at. Control
/// characters (line breaks and tabs too), characters that are not seen, look like a space or change the
/// direction of what follows, and bytes that are no UTF-8 become \xNN, byte by byte; everything else stays.
/// For messages, tables and strings in JSON.
[[nodiscard]] std::string foreign_text(std::string_view text);

/// The same line by line: line feeds stay.
[[nodiscard]] std::string foreign_lines(std::string_view text);

/// Bytes of the well-formed UTF-8 sequence that `text` (not empty) starts with (Unicode 15, table 3-7: no
/// overlong forms, no surrogates, nothing above U+10FFFF); 0 when there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

}  // namespace echelon
