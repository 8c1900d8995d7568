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

/// Takes `digits` digits off the front; -1: there are none, or their number is above `high`.
int take_number(std::string_view& rest, std::size_t digits, int high) {
  if (rest.size() < digits) return -1;
  int number = 0;
  for (const char c : rest.substr(0, digits)) {
    if (c < '0' || c > '9') return -1;
    number = number * 10 + (c - '0');
  }
  rest.remove_prefix(digits);
  return number > high ? -1 : number;
}

bool take(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

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
  std::tm time{};
  const int year = take_number(text, 4, 9999);
  if (year < 1970 || !take(text, "-")) return std::nullopt;
  const int month = take_number(text, 2, 12);
  if (month < 1 || !take(text, "-")) return std::nullopt;
  const int day = take_number(text, 2, 31);
  if (day < 1 || !take(text, "T")) return std::nullopt;
  time.tm_hour = take_number(text, 2, 23);
  if (time.tm_hour < 0 || !take(text, ":")) return std::nullopt;
  time.tm_min = take_number(text, 2, 59);
  if (time.tm_min < 0) return std::nullopt;
  double fraction = 0;
  if (take(text, ":")) {
    time.tm_sec = take_number(text, 2, 59);
    if (time.tm_sec < 0) return std::nullopt;
    fraction = take_fraction(text);
  }
  if (text != "Z" && text != "+00:00") return std::nullopt;
  time.tm_year = year - 1900;
  time.tm_mon = month - 1;
  time.tm_mday = day;
  const std::time_t seconds = timegm(&time);
  if (time.tm_mday != day) return std::nullopt;  // 31 February became a day of March
  return static_cast<double>(seconds) + fraction;
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
