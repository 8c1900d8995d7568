#pragma once
#include <cstdint>
#include <string>
#include <string_view>

/// The line at the bottom of a terminal that is written anew while work goes on. There is one, as there is
/// one terminal: lines of the log go above it. Thread-safe.
namespace echelon::status_line {

/// Can a line on this descriptor be written anew: is it a terminal, and one that knows how (TERM is set and
/// not "dumb")?
[[nodiscard]] bool is_possible(int fd);

/// Shows `text` on standard error in place of what was shown before; "" takes it away. One line without
/// newline; what is wider than the terminal is not seen.
void show(const std::string& text);

/// Prints a whole line, newline included, to standard error, above what is shown.
void print_above(std::string_view line);

/// "######......" of `width` characters; `share` from 0 to 1.
[[nodiscard]] std::string bar(double share, std::size_t width);

/// ", 12.3 MiB/s, 5 s left", of bytes; "" while too little is done to tell.
[[nodiscard]] std::string pace(std::uint64_t done, std::uint64_t total, double seconds);

}  // namespace echelon::status_line
