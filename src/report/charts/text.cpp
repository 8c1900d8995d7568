#include "report/charts/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/number.h"
#include "base/str.h"
#include "base/utc_time.h"

namespace echelon::report {
namespace {

constexpr double kMinute_s = 60;
constexpr double kHour_s = 3600;
constexpr double kDay_s = 86'400;
constexpr double kPercent = 100;

/// A unit and how much of the quantity it is.
struct Unit {
  const char* name;
  double size;
};

/// The largest unit of which `most` is at least one.
Unit unit_for(double most, Quantity quantity) {
  static constexpr std::array kBytes{Unit{"B", 1}, Unit{"KiB", 1024.0}, Unit{"MiB", 1048576.0},
                                     Unit{"GiB", 1073741824.0}, Unit{"TiB", 1099511627776.0}};
  static constexpr std::array kSeconds{Unit{"µs", 1e-6},       Unit{"ms", 1e-3},   Unit{"s", 1},
                                       Unit{"min", kMinute_s}, Unit{"h", kHour_s}, Unit{"d", kDay_s}};
  const auto choose = [most](const auto& units, double reached) {
    Unit chosen = units[0];
    for (const Unit& unit : units) {
      if (most >= reached * unit.size) chosen = unit;
    }
    return chosen;
  };
  constexpr double kEnough = 2;  // "90 s" and not "1.5 min"
  if (quantity == Quantity::kBytes) return choose(kBytes, 1);
  if (quantity == Quantity::kSeconds) return choose(kSeconds, kEnough);
  if (quantity == Quantity::kShare) return {"%", 1 / kPercent};
  return {"", 1};
}

/// "1.5k", "20M": a label without a unit.
std::string compact(double value, double step) {
  static constexpr std::array kLetters{Unit{"", 1},    Unit{"k", 1e3},  Unit{"M", 1e6},
                                       Unit{"G", 1e9}, Unit{"T", 1e12}, Unit{"P", 1e15}};
  const double size = std::fabs(value);
  if (size > 0 && size < 1e-3) return significant(value, 3);
  Unit chosen = kLetters[0];
  constexpr double kLong = 1e4;
  for (const Unit& unit : kLetters) {
    if (size >= kLong && size >= unit.size) chosen = unit;
  }
  const double digits = std::ceil(-std::log10(step / chosen.size) - 1e-9);
  return trimmed(value / chosen.size, static_cast<int>(std::clamp(digits, 0.0, 6.0))) + chosen.name;
}

}  // namespace

std::string trimmed(double value, int digits) {
  std::string text = fixed(value, digits);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

std::string significant(double value, int digits) {
  std::array<char, 64> text{};
  (void)std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

std::string shown_time(double seconds) {
  if (!(std::fabs(seconds) < 1e12)) return significant(seconds, 3) + " s";
  if (seconds < 0) return "-" + shown_time(-seconds);
  if (seconds < 2 * kMinute_s) return shown(seconds, Quantity::kSeconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (seconds < kHour_s) return str(whole / 60, " min ", whole % 60, " s");
  const std::int64_t minutes = (whole + 30) / 60;
  if (seconds < 2 * kDay_s) return str(minutes / 60, " h ", minutes % 60, " min");
  const std::int64_t hours = (whole + 1800) / 3600;
  return str(hours / 24, " d ", hours % 24, " h");
}

std::string shown_utc(double time_s) {
  constexpr double kMost_s = 2e11;  // years with four digits
  return time_s > 0 && time_s < kMost_s ? describe_utc(time_s, 0) : "at no known time";
}

std::string shown_per_mille(std::int64_t per_mille) {
  return str(per_mille / 10, ".", per_mille % 10, " %");
}

std::string shown(double value, Quantity quantity) {
  constexpr double kMostCount = 9e15;
  if (quantity == Quantity::kStep && value >= 0 && value < kMostCount)
    return human_count(static_cast<std::uint64_t>(value));
  if (quantity == Quantity::kBytes && value >= 0 && value < 9e18) return human_bytes(value);
  if (quantity == Quantity::kShare) return fixed(value * kPercent, 1) + " %";
  if (quantity == Quantity::kSeconds) {
    if (std::fabs(value) >= 2 * kMinute_s) return shown_time(value);
    Unit unit{"µs", 1e-6};
    if (std::fabs(value) >= 1e-3) unit = {"ms", 1e-3};
    if (std::fabs(value) >= 1) unit = {"s", 1};
    return value == 0 ? "0 s" : str(significant(value / unit.size, 3), " ", unit.name);
  }
  const double size = std::fabs(value);
  if (size >= 1000 && size < kMostCount)
    return str(value < 0 ? "-" : "", human_count(static_cast<std::uint64_t>(std::llround(size))));
  return significant(value, 5);
}

Ticks linear_ticks(double from, double to, int most, Quantity quantity) {
  const Unit unit = unit_for(std::max(std::fabs(from), std::fabs(to)), quantity);
  Ticks result{.unit = unit.name};
  const double rough = (to - from) / unit.size / most;
  if (!(rough > 0) || !std::isfinite(rough)) return result;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough * 0.999) step = factor * power;
  }
  if (quantity == Quantity::kStep) step = std::max(step, 1.0);
  const double first = std::ceil(from / unit.size / step - 1e-9);
  for (double n = first; n * step * unit.size <= to + 1e-9 * (to - from); ++n) {
    if (result.ticks.size() > 2 * static_cast<std::size_t>(most)) break;
    result.ticks.push_back({n * step * unit.size, compact(n * step, step)});
  }
  return result;
}

Ticks factor_ticks(double from, double to, Quantity quantity) {
  const Unit unit = unit_for(to, quantity);
  Ticks result{.unit = unit.name};
  constexpr double kFewDecades = 2.5;
  const bool few = std::log10(to / from) < kFewDecades;
  for (double power = std::pow(10.0, std::floor(std::log10(from / unit.size)));
       power * unit.size <= to * 1.0001; power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * power * unit.size;
      if ((factor != 1 && !few) || value < from * 0.9999 || value > to * 1.0001) continue;
      result.ticks.push_back({value, compact(factor * power, factor * power)});
    }
    if (result.ticks.size() > 40 || power == 0) break;
  }
  constexpr std::size_t kMost = 8;
  while (result.ticks.size() > kMost) {  // every second one
    std::vector<Tick> fewer;
    for (std::size_t i = 0; i < result.ticks.size(); i += 2) fewer.push_back(result.ticks[i]);
    result.ticks = std::move(fewer);
  }
  return result;
}

}  // namespace echelon::report
