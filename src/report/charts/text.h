#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Numbers and texts as a page shows them.
namespace echelon::report {

/// The kind of a number, which determines how it is written.
enum class Quantity : std::uint8_t { kNumber, kStep, kBytes, kSeconds, kShare };

/// "1,200", "4.0931", "1.2e-05", "3.2 GiB", "1.52 s", "43.1 %": `value` for people, its unit included.
[[nodiscard]] std::string shown(double value, Quantity quantity);
/// "12.3 s", "3 min 4 s", "2 h 5 min", "3 d 4 h"
[[nodiscard]] std::string shown_time(double seconds);
/// "2026-11-24 06:45:31 UTC"
[[nodiscard]] std::string shown_utc(double time_s);
/// "43.1 %" of 431.
[[nodiscard]] std::string shown_per_mille(std::int64_t per_mille);
/// Writes a place in a drawing, with at most `digits` behind the point, without trailing zeros.
[[nodiscard]] std::string trimmed(double value, int digits = 1);
/// "%.<digits>g"
[[nodiscard]] std::string significant(double value, int digits);

/// A value on an axis and what is written there.
struct Tick {
  double value = 0;
  std::string label;
};
/// Some `most` round values from `from` to `to`, and the unit of their labels ("GiB"; empty: none).
struct Ticks {
  std::vector<Tick> ticks;
  std::string unit;
};
[[nodiscard]] Ticks linear_ticks(double from, double to, int most, Quantity quantity);
/// Returns the ticks of an axis of equal factors; `from` is above 0.
[[nodiscard]] Ticks factor_ticks(double from, double to, Quantity quantity);

}  // namespace echelon::report
