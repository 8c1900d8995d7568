#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "report/record/run_log.h"

namespace echelon::report {

/// A line of logs/rank-R.log: "2026-11-24T06:45:31.123+01:00 I [rank 0/8 n0] text".
struct LogLine {
  double time_s = 0;  ///< since 1970
  char level = 'I';   ///< D, I, W, E
  std::string host;
  std::string text;
};
[[nodiscard]] std::optional<LogLine> parse_log_line(std::string_view line);

/// "echelon 0.1.0: run quickstart, 2 ranks on 1 node ...": the first line of a start.
[[nodiscard]] bool is_introduction(std::string_view text);
/// One of the lines behind it: model, data, attention.
[[nodiscard]] bool is_environment(std::string_view text);
/// "saved step 40 in 1.2 s, training waited 0.1 s"
[[nodiscard]] std::optional<Save> parse_save(const LogLine& line);
/// A line of restarts.jsonl in words.
[[nodiscard]] std::optional<Event> restart_in_place(std::string_view line);

}  // namespace echelon::report
