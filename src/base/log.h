#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace echelon::log {

/// The messages that rank 0 shows on standard error beside errors. Files have everything.
enum class Console : std::uint8_t {
  kWarnings,
  kUsual,
  kAll,  ///< notes too
};
/// Sets the console of this process. Call it before init(), and before other threads log.
void show(Console console);

/// One logger a process; texts go through terminal_text(). Before init(): plain lines on standard error.
/// Thread-safe. `prefix`: e.g. "rank 3/8 n1"; `console`: messages also go to standard error as show() set it
/// (rank 0), else only errors do; `file`: logs/rank-R.log, or empty for none; opened by fs::open_own().
/// `held`: the file is left as it is until keep(), and for good if the process ends before.
void init(std::string_view prefix, bool console, const std::filesystem::path& file, bool held = false);
/// Writes the held messages to the file, and from now on all others. If the file cannot be made, that is a
/// warning.
void keep();

void info(std::string_view text);
/// Logs a detail: to the file, and to a console that shows all (Console::kAll).
void note(std::string_view text);
void warn(std::string_view text);
void error(std::string_view text);
void flush();

}  // namespace echelon::log
