#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace echelon::log {

/// One logger a process; texts go through terminal_text(). Before init(): plain lines on standard error.
/// Thread-safe. `prefix`: e.g. "rank 3/8 n1"; `console`: everything also on standard error (rank 0), else
/// only errors; `file`: logs/rank-R.log, or empty for none; opened by fs::open_own(). `held`: the file is
/// left as it is until keep(), and for good if the process ends before.
void init(std::string_view prefix, bool console, const std::filesystem::path& file, bool held = false);
/// Writes what was held to the file, and all that follows. If the file cannot be made, that is a warning.
void keep();

void info(std::string_view text);
/// To the file only: details that would bury an error on a terminal.
void note(std::string_view text);
void warn(std::string_view text);
void error(std::string_view text);
void flush();

}  // namespace echelon::log
