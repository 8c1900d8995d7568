#include "report/charts/rows.h"

#include <algorithm>
#include <cmath>

#include "base/foreign_text.h"
#include "base/str.h"

namespace echelon::report {
namespace {

constexpr double kRowsWidth = 600;
constexpr double kWideWidth = 1200;
constexpr double kRowsRight = 16;
constexpr double kRowGap = 10;
constexpr double kLetter = 7.2;  // width of a letter of a row's name

/// Room for the names of rows.
double left_for(const std::vector<std::string>& names) {
  std::size_t longest = 4;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  constexpr double kMost = 190;
  return std::min(kMost, 14 + kLetter * static_cast<double>(longest));
}

std::string row_name(const std::string& name, double left, double middle) {
  constexpr std::size_t kLongest = 30;
  const std::string cut = name.size() > kLongest ? name.substr(0, kLongest) + "..." : name;
  return str("<text class=\"end row\" x=\"", trimmed(left - 8), "\" y=\"", trimmed(middle + 4), "\">",
             as_html(cut), "</text>");
}

std::string rectangle(int style, double x, double y, double width, double height, const std::string& text) {
  return str("<rect class=\"area s", style, "\" x=\"", trimmed(x), "\" y=\"", trimmed(y), "\" width=\"",
             trimmed(width), "\" height=\"", trimmed(height), "\"><title>", as_html(text),
             "</title></rect>\n");
}

/// Grid lines with labels below them; the axis begins at 0.
std::string axis_below(const Ticks& ticks, double scale, double left, double top, double bottom,
                       const std::string& title, double width) {
  std::string svg = "<g class=\"grid\">";
  const auto place = [&](double value) { return trimmed(left + value * scale); };
  for (const Tick& tick : ticks.ticks)
    svg += str("<path d=\"M", place(tick.value), " ", trimmed(top), "V", trimmed(bottom + 4), "\"/>");
  svg += "</g><g class=\"ticks\">";
  for (const Tick& tick : ticks.ticks)
    svg += str("<text class=\"mid\" x=\"", place(tick.value), "\" y=\"", trimmed(bottom + 19), "\">",
               tick.label, "</text>");
  return svg + str("</g><text class=\"axis end\" x=\"", width - kRowsRight, "\" y=\"", trimmed(bottom + 40),
                   "\">", as_html(title), "</text>");
}

}  // namespace

std::string bar_chart(const Frame& frame, const std::vector<Key>& keys, const std::vector<ValueRow>& rows,
                      Quantity quantity) {
  constexpr double kBar = 13;
  constexpr double kAbove = 8;
  double most = 0;
  for (const ValueRow& row : rows) {
    for (const double value : row.values) most = std::isfinite(value) ? std::max(most, value) : most;
  }
  if (!(most > 0)) return "";
  const double left = left_for(mapped(rows, &ValueRow::name));
  const double scale = (kRowsWidth - left - kRowsRight - 70) / most;  // room for the value behind a bar
  const double row_height = kBar * static_cast<double>(keys.size()) + kRowGap;
  const double bottom = kAbove + row_height * static_cast<double>(rows.size());
  const Ticks ticks = linear_ticks(0, most, 4, quantity);
  std::string svg = axis_below(ticks, scale, left, kAbove, bottom, ticks.unit, kRowsWidth);
  Table data{.columns = {""}};
  for (const Key& key : keys) data.columns.push_back(key.name);
  double y = kAbove + kRowGap / 2;
  for (const ValueRow& row : rows) {
    svg += row_name(row.name, left, y + (row_height - kRowGap) / 2);
    std::vector<std::string> cells{row.name};
    for (std::size_t i = 0; i < row.values.size(); ++i, y += kBar) {
      const bool known = std::isfinite(row.values[i]);
      const std::string text = known ? shown(row.values[i], quantity) : "not known";
      cells.push_back(text);
      if (!known) continue;
      svg += rectangle(keys[i].style, left, y + 1, row.values[i] * scale, kBar - 2,
                       str(row.name, ", ", keys[i].name, ": ", text));
      svg += str("<text class=\"value\" x=\"", trimmed(left + row.values[i] * scale + 5), "\" y=\"",
                 trimmed(y + kBar - 2.5), "\">", as_html(text), "</text>");
    }
    y += kRowGap;
    data.rows.push_back(std::move(cells));
  }
  return figure(frame, keys, kRowsWidth, bottom + 48, svg, data);
}

std::string share_chart(const Frame& frame, const std::vector<Key>& keys, const std::vector<ValueRow>& rows,
                        const Table& data) {
  constexpr double kBar = 30;
  constexpr double kAbove = 6;
  const bool named = rows.size() > 1;
  const double left = named ? left_for(mapped(rows, &ValueRow::name)) : 8;
  const double width = kRowsWidth - left - kRowsRight;
  const double bottom = kAbove + (kBar + kRowGap) * static_cast<double>(rows.size());
  std::string svg = axis_below(linear_ticks(0, 1, 5, Quantity::kShare), width, left, kAbove, bottom,
                               "% of the seconds", kRowsWidth);
  double y = kAbove + kRowGap / 2;
  for (const ValueRow& row : rows) {
    double sum = 0;
    for (const double part : row.values) sum += part;
    if (named) svg += row_name(row.name, left, y + kBar / 2);
    double x = left;
    for (std::size_t i = 0; i < row.values.size() && sum > 0; ++i) {
      if (!(row.values[i] > 0)) continue;
      const double size = row.values[i] / sum * width;
      svg += rectangle(keys[i].style, x, y, size, kBar,
                       str(keys[i].name, ": ", shown(row.values[i] / sum, Quantity::kShare)));
      x += size;
    }
    y += kBar + kRowGap;
  }
  return figure(frame, keys, kRowsWidth, bottom + 48, svg, data);
}

std::string time_chart(const Frame& frame, const std::vector<Key>& keys, const std::vector<TimeRow>& rows,
                       const std::vector<TimeMark>& marks, double from_s, double to_s, const Table& data) {
  constexpr double kBar = 18;
  if (!(to_s > from_s)) return "";
  const double left = left_for(mapped(rows, &TimeRow::name));
  const double width = frame.wide ? kWideWidth : kRowsWidth;
  const double scale = (width - left - kRowsRight) / (to_s - from_s);
  const double top = marks.empty() ? 8 : 30;
  const double bottom = top + (kBar + kRowGap) * static_cast<double>(rows.size());
  const Ticks ticks = linear_ticks(0, to_s - from_s, frame.wide ? 10 : 5, Quantity::kSeconds);
  std::string svg = axis_below(ticks, scale, left, top, bottom, ticks.unit, width);
  const double least = frame.wide ? 1.5 : 1;  // a short span must be seen
  double y = top + kRowGap / 2;
  const auto place = [&](double time_s) {
    return left + (std::clamp(time_s, from_s, to_s) - from_s) * scale;
  };
  for (const TimeRow& row : rows) {
    svg += row_name(row.name, left, y + kBar / 2);
    for (const TimeRow::Span& span : row.spans) {
      const double x = place(span.begin_s);
      svg += rectangle(span.style, x, y, std::max(least, place(span.end_s) - x), kBar, span.text);
    }
    y += kBar + kRowGap;
  }
  double last = -100;
  constexpr double kNear = 17;  // numbers that would lie on one another share the first one's place
  for (const TimeMark& mark : marks) {
    const double x = place(mark.time_s);
    svg += str("<path class=\"mark\" d=\"M", trimmed(x), " ", top - 6, "V", trimmed(bottom), "\"><title>",
               as_html(mark.text), "</title></path>");
    if (x - last < kNear) continue;
    svg += str("<circle class=\"pin\" cx=\"", trimmed(x), "\" cy=\"", top - 15,
               "\" r=\"9\"/><text class=\"mid pinned\" x=\"", trimmed(x), "\" y=\"", top - 11, "\">",
               as_html(mark.label), "</text>");
    last = x;
  }
  return figure(frame, keys, width, bottom + 48, svg, data);
}

}  // namespace echelon::report
