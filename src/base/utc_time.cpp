#include "base/utc_time.h"

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>

#include "base/str.h"

namespace echelon {
namespace {

constexpr double kDay_s = 86'400;

/// ".25" off the front; 0 where there is none.
double take_fraction(std::string_view& rest) {
  if (!rest.starts_with('.')) return 0;
  rest.remove_prefix(1);
  double fraction = 0;
  for (double unit = 0.1; !rest.empty() && rest[0] >= '0' && rest[0] <= '9'; unit /= 10) {
    fraction += unit * (rest[0] - '0');
    rest.remove_prefix(1);
  }
  return fraction;
}

}  // namespace

double utc_now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string in_thousandths(double time_s) {
  const auto all = static_cast<std::int64_t>(std::floor(time_s * 1e3));
  return str(all / 1000, ".", std::to_string(1000 + all % 1000).substr(1));
}

std::optional<double> parse_utc(std::string_view text) {
  constexpr std::size_t kWithoutSeconds = std::string_view("2026-03-01T11:30").size();
  const std::string clock(text.substr(0, text.find_first_of(".Z+")));
  text.remove_prefix(clock.size());
  const bool has_seconds = clock.size() > kWithoutSeconds;
  const char* format = has_seconds ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%dT%H:%M";
  std::tm time{};
  if (::strptime(clock.c_str(), format, &time) == nullptr) return std::nullopt;
  const auto seconds = static_cast<double>(timegm(&time));
  // strptime() also takes fewer digits, and a day that the month does not have.
  if (seconds < 0 || utc_text(seconds, format) != clock) return std::nullopt;
  const double fraction = has_seconds ? take_fraction(text) : 0;
  return text == "Z" || text == "+00:00" ? std::optional(seconds + fraction) : std::nullopt;
}

std::string utc_text(double time_s, const char* format) {
  const auto seconds = static_cast<std::time_t>(std::floor(time_s));
  std::tm time{};
  std::array<char, 32> text{};
  if (gmtime_r(&seconds, &time) == nullptr) return "?";
  return {text.data(), std::strftime(text.data(), text.size(), format, &time)};
}

std::string describe_utc(double time_s, double now_s) {
  const bool near = std::fabs(time_s - now_s) < kDay_s;
  return utc_text(time_s, near ? "%H:%M:%S UTC" : "%Y-%m-%d %H:%M:%S UTC");
}

}  // namespace echelon
