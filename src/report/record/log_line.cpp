#include "report/record/log_line.h"

#include <cmath>
#include <cstdio>

#include "base/foreign_json.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "report/record/files.h"

namespace echelon::report {

namespace {

/// Seconds that a clock of "+01:00" is ahead of UTC.
std::optional<double> ahead_of_utc(std::string_view zone) {
  if (!zone.starts_with('+') && !zone.starts_with('-')) return std::nullopt;
  const auto ahead_s = parse_utc(str("1970-01-01T", zone.substr(1), "Z"));
  return ahead_s && zone[0] == '-' ? -*ahead_s : ahead_s;
}

}  // namespace

std::optional<LogLine> parse_log_line(std::string_view line) {
  constexpr std::size_t kClock = 23;
  constexpr std::size_t kTime = 29;
  if (line.size() < kTime + 5 || line[kTime] != ' ' || line[kTime + 2] != ' ' || line[kTime + 3] != '[')
    return std::nullopt;
  const auto time = parse_utc(str(line.substr(0, kClock), "Z"));
  const auto ahead_s = ahead_of_utc(line.substr(kClock, kTime - kClock));
  const std::size_t close = line.find("] ", kTime);
  if (!time || !ahead_s || close == std::string_view::npos) return std::nullopt;
  const std::string_view who = line.substr(kTime + 4, close - kTime - 4);  // "rank 0/8 n0"
  const std::size_t space = who.rfind(' ');
  return LogLine{.time_s = *time - *ahead_s,
                 .level = line[kTime + 1],
                 .host = std::string(space == std::string_view::npos ? "" : who.substr(space + 1)),
                 .text = std::string(line.substr(close + 2))};
}

bool is_introduction(std::string_view text) {
  constexpr std::string_view kName = "echelon ";
  return text.size() > kName.size() && text.starts_with(kName) && text[kName.size()] >= '0' &&
         text[kName.size()] <= '9' && text.find(": run ") != std::string_view::npos;
}

bool is_environment(std::string_view text) {
  return text.starts_with("model ") || text.starts_with("data: ") || text.starts_with("attention: ") ||
         text.starts_with("matrix products run at ");
}

std::optional<Save> parse_save(const LogLine& line) {
  long long step = 0;
  Save save{.time_s = line.time_s};
  if (std::sscanf(line.text.c_str(), "saved step %lld in %lf s, training waited %lf s", &step, &save.seconds,
                  &save.stall_s) != 3 ||
      step < 0 || !std::isfinite(save.seconds) || !std::isfinite(save.stall_s))
    return std::nullopt;
  save.step = step;
  return save;
}

std::optional<Event> restart_in_place(std::string_view line) {
  const nlohmann::json value = read_foreign_json(line).value;
  const auto time = number_in(value, "time");
  if (!time) return std::nullopt;
  std::string text = "restarted in place";
  if (const std::string cause = text_in(value, "cause"); !cause.empty()) text += ": " + cause;
  if (const nlohmann::json& nodes = member_of(value, "left_out"); nodes.is_array() && !nodes.empty()) {
    text += "; left out:";
    for (const auto& node : nodes) text += node.is_string() ? " " + node.get<std::string>() : "";
  }
  if (const auto step = number_in(value, "resumed_step")) {
    text += str("; resumed from step ", static_cast<std::int64_t>(*step));
    if (const std::string source = text_in(value, "source"); !source.empty()) text += " (" + source + ")";
  }
  double total_s = 0;
  if (const nlohmann::json& seconds = member_of(value, "seconds"); seconds.is_object()) {
    for (const auto& [name, spent] : seconds.items()) total_s += spent.is_number() ? spent.get<double>() : 0;
  }
  if (total_s > 0) text += str("; took ", std::round(total_s * 10) / 10, " s");
  return Event{*time, EventKind::kRestarted, text};
}

}  // namespace echelon::report
