#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/fs.h"
#include "base/foreign_numbers.h"
#include "report/record/series.h"

namespace echelon::report {

/// The faults in lines of a metrics.jsonl.
struct LineFaults {
  std::uint64_t unreadable = 0;      ///< not JSON, too long, or no object
  std::uint64_t without_step = 0;    ///< no step that is a count
  std::uint64_t out_of_order = 0;    ///< the step is not above that of the previous line
  std::uint64_t clock_back = 0;      ///< the time is before that of the previous line
  bool torn = false;                 ///< the last line has no end, yet
  std::uint64_t bytes_left_out = 0;  ///< at the end of a file that is too long
};

/// The number of times that each rank had the largest value of a spread.
struct LargestRanks {
  struct Of {
    std::uint64_t lines = 0;
    double excess = 0;  ///< sum of largest / median over these lines
  };
  std::map<std::int64_t, Of> by_rank;
  std::uint64_t lines = 0;
};

/// The numbers of a metrics.jsonl over the steps, thinned, in bounded memory. Everything in the file is
/// untrusted. Members of objects are named with dots: "breakdown_s.compute".
class MetricsLog {
 public:
  /// Some million lines; reading them takes a quarter of a minute.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;
  /// At most `most_bytes` of the file are read.
  explicit MetricsLog(fs::Path file, std::uint64_t most_bytes = kMostBytes)
      : file_(std::move(file)), most_bytes_(most_bytes) {}
  MetricsLog(MetricsLog&&) = default;
  MetricsLog& operator=(MetricsLog&&) = default;

  /// Reads the lines appended since the last call; a file that was replaced or cut is read anew. Throws
  /// Error(kUsage) when it cannot be read; a file that does not exist is empty.
  void read_on();

  [[nodiscard]] std::uint64_t lines() const { return lines_; }
  [[nodiscard]] const LineFaults& faults() const { return faults_; }
  /// Returns how often each key was null or no finite number.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& nulls() const { return nulls_; }
  /// Null where no line has the key.
  [[nodiscard]] const Series* find(std::string_view name) const;
  /// The names that begin with `prefix`.
  [[nodiscard]] std::vector<std::string> names(std::string_view prefix) const;
  [[nodiscard]] const std::map<std::string, LargestRanks>& largest_ranks() const { return largest_; }

 private:
  struct Place {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t offset = 0;
  };
  void begin_anew();
  void take_bytes(std::string_view bytes);
  void take_line(std::string_view line);
  void take_number(std::size_t index, double step);
  /// Returns a value of the current line; NaN if it has none.
  [[nodiscard]] double value_of(std::string_view name) const;
  void add(const std::string& name, double step, double value, std::size_t index);
  void count_rank(const std::string& name, double value);

  fs::Path file_;
  std::uint64_t most_bytes_;
  Place place_;
  ForeignNumbers numbers_;  ///< of the line at hand
  std::string torn_;        ///< the beginning of a line whose end is not there yet
  bool skipping_ = false;
  std::uint64_t lines_ = 0;
  LineFaults faults_;
  double last_step_ = -1;
  double line_steps_ = 1;    ///< that the line at hand stands for
  double line_seconds_ = 1;  ///< that they took
  double last_time_ = 0;
  std::map<std::string, std::uint64_t> nulls_;
  std::map<std::string, Series, std::less<>> series_;
  std::vector<std::map<std::string, Series, std::less<>>::value_type*> usual_;  ///< by place in a line
  std::map<std::string, LargestRanks> largest_;
};

}  // namespace echelon::report
