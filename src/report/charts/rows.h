#pragma once
#include <string>
#include <vector>

#include "report/charts/figure.h"

namespace echelon::report {

/// The values of one thing.
struct ValueRow {
  std::string name;
  std::vector<double> values;  ///< one for each key; NaN: not known
};
/// Bars below one another, a group for each row.
[[nodiscard]] std::string bar_chart(const Frame& frame, const std::vector<Key>& keys,
                                    const std::vector<ValueRow>& rows, Quantity quantity);

/// One bar for each row, made of its values, which sum to the whole width.
[[nodiscard]] std::string share_chart(const Frame& frame, const std::vector<Key>& keys,
                                      const std::vector<ValueRow>& rows, const Table& data);

/// Spans of time in rows.
struct TimeRow {
  std::string name;
  struct Span {
    double begin_s = 0;
    double end_s = 0;
    int style = 0;
    std::string text;
  };
  std::vector<Span> spans;
};
/// A numbered mark on the axis.
struct TimeMark {
  double time_s = 0;
  std::string label;  ///< "3"
  std::string text;
};
/// `from_s` .. `to_s`: the axis; its labels count from `from_s`.
[[nodiscard]] std::string time_chart(const Frame& frame, const std::vector<Key>& keys,
                                     const std::vector<TimeRow>& rows, const std::vector<TimeMark>& marks,
                                     double from_s, double to_s, const Table& data);

}  // namespace echelon::report
