#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::metrics {

/// One number of a line. Numbers of an object have the object's name before their own: "breakdown_s/compute".
struct Value {
  std::string tag;
  double value = 0;
  /// Returns whether it says when the line was written: trackers have places of their own for that.
  [[nodiscard]] bool is_when() const { return tag == "step" || tag == "time"; }
};

/// One line of metrics.jsonl: its finite numbers. Everything else in it is left out.
struct Line {
  std::int64_t step = 0;
  double time_s = 0;          ///< since 1970; 0 if the line does not tell
  std::vector<Value> values;  ///< all of them, step and time included, in an order that depends on tags only
};

/// Lines may come from anywhere: longer ones are left out, as are names that are longer or contain control
/// characters.
inline constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostTagBytes = 256;

/// Nothing if `text` is not an object with a whole number `step`.
[[nodiscard]] std::optional<Line> parse_line(std::string_view text);

struct LineCounts {
  std::int64_t lines = 0;
  std::int64_t left_out = 0;  ///< not lines of metrics
};
/// Calls `use` for every line of a metrics.jsonl, in its order, without keeping the file in memory. Throws
/// Error(kUsage) for a file that cannot be read.
LineCounts for_each_line(const std::filesystem::path& file, const std::function<void(const Line&)>& use);

/// The shortest decimal text that reads back as the same number: "0.1", "12", "1e+30".
[[nodiscard]] std::string number_text(double value);

}  // namespace echelon::metrics
