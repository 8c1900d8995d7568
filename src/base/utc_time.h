#pragma once
#include <optional>
#include <string>
#include <string_view>

/// Points in time as seconds since 1970-01-01 00:00 UTC.
namespace echelon {

/// Now, by the machine's clock.
[[nodiscard]] double utc_now_s();

/// "1772364600.123": a point in time from 1970 on, for files.
[[nodiscard]] std::string in_thousandths(double time_s);

/// "2026-03-01T11:30:00Z", ISO 8601 as AWS writes it: seconds and their fraction may be left out, +00:00 says
/// the same as Z. Nothing for any other text.
[[nodiscard]] std::optional<double> parse_utc(std::string_view text);

/// The time as strftime() writes it; "?" if the calendar has no such year.
[[nodiscard]] std::string utc_text(double time_s, const char* format);

/// "11:30:00 UTC" within a day of now, else "2026-03-01 11:30:00 UTC".
[[nodiscard]] std::string describe_utc(double time_s, double now_s);

}  // namespace echelon
