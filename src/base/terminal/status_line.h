#pragma once
#include <cstdint>
#include <string>
#include <string_view>

/// The line at the bottom of a terminal that is redrawn while work goes on. There is one per process; log
/// lines are printed above it. Thread-safe.
namespace echelon::status_line {

/// True if a line on this descriptor can be redrawn: it is a terminal, and TERM is set and not "dumb".
[[nodiscard]] bool is_possible(int fd);

/// True if how work goes on is shown on standard error: this is rank 0 of its step, and a line can be redrawn
/// there, or the local launcher has turned it on because it can be on its own, and it is not off.
[[nodiscard]] bool is_live();

/// Says that a line can be redrawn, to the programs that this one starts, too (ECHELON_PROGRESS=bar).
void turn_on();
/// From now on is_live() is false, in the programs that this one starts too (ECHELON_PROGRESS=none).
void turn_off();
[[nodiscard]] bool is_off();

/// Replaces the text shown on standard error by `text`; "" removes it. One line without newline; what does
/// not fit the terminal's width is cut off.
void show(const std::string& text);

/// Prints a whole line, newline included, to standard error, above what is shown.
void print_above(std::string_view line);

/// "######......" of `width` characters; `share` from 0 to 1.
[[nodiscard]] std::string bar(double share, std::size_t width);

/// ", 12.3 MiB/s, 5 s left" of bytes, else ", 12.3/s, 5 s left"; "" while too little is done to tell.
[[nodiscard]] std::string pace(std::uint64_t done, std::uint64_t total, double seconds, bool bytes = true);

}  // namespace echelon::status_line
