#include "report/charts/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/foreign_text.h"
#include "base/str.h"

namespace echelon::report {
namespace {

constexpr double kWidth = 600;
constexpr double kHeight = 270;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 30;
constexpr double kBottom = 50;
constexpr std::size_t kRows = 60;  ///< of a table of data

/// From values to places in the drawing.
struct Scale {
  double from = 0;
  double to = 1;
  double at = 0;
  double size = 1;
  bool factors = false;

  [[nodiscard]] double operator()(double value) const {
    const double share =
        factors ? std::log(value / from) / std::log(to / from) : (value - from) / (to - from);
    return at + size * std::clamp(share, -0.1, 1.1);
  }
};

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  [[nodiscard]] bool empty() const { return !(least <= most); }
};

/// The two scales of a chart, drawn with their grid.
struct Plane {
  Scale x{.at = kLeft, .size = kWidth - kLeft - kRight};
  Scale y{.at = kHeight - kBottom, .size = -(kHeight - kTop - kBottom)};
  std::string svg;

  Plane(const Axes& axes, Range over_x, Range over_y) {
    if (over_x.least == over_x.most) over_x = {over_x.least - 1, over_x.most + 1};
    x.from = over_x.least;
    x.to = over_x.most;
    constexpr double kFactors = 50;
    y.factors = axes.may_be_factors && over_y.least > 0 && over_y.most > kFactors * over_y.least;
    set_heights(axes, over_y);
    draw(axes);
  }
  [[nodiscard]] std::string place(const Point& point) const {
    return str(trimmed(x(point.x)), " ", trimmed(y(point.y)));
  }
  [[nodiscard]] std::string attributes(const Axes& axes) const {
    return str("data-x=\"", significant(x.from, 12), " ", significant(x.to, 12), " ", kLeft, " ",
               kWidth - kRight, "\" data-xq=\"", static_cast<int>(axes.x_quantity), "\" data-q=\"",
               static_cast<int>(axes.y_quantity), "\" data-xn=\"", as_html(axes.x), "\" data-y=\"", kTop, " ",
               kHeight - kBottom, "\"");
  }

 private:
  void set_heights(const Axes& axes, Range range) {
    if (y.factors) {
      constexpr double kAir = 1.1;
      y.from = range.least / kAir;
      y.to = range.most * kAir;
      return;
    }
    if (axes.from_zero) range.least = std::min(0.0, range.least);
    double air = 0.06 * (range.most - range.least);
    if (!(air > 0)) air = range.most == 0 ? 1 : 0.1 * std::fabs(range.most);
    y.from = axes.from_zero && range.least == 0 ? 0 : range.least - air;
    y.to = range.most + air;
  }
  void draw(const Axes& axes) {
    constexpr int kAcross = 5;
    constexpr int kUp = 5;
    const double bottom = kHeight - kBottom;
    const Ticks up = y.factors ? factor_ticks(y.from, y.to, axes.y_quantity)
                               : linear_ticks(y.from, y.to, kUp, axes.y_quantity);
    const Ticks across = linear_ticks(x.from, x.to, kAcross, axes.x_quantity);
    svg += "<g class=\"grid\">";
    for (const Tick& tick : up.ticks)
      svg += str("<path d=\"M", kLeft, " ", trimmed(y(tick.value)), "H", kWidth - kRight, "\"/>");
    for (const Tick& tick : across.ticks)
      svg += str("<path d=\"M", trimmed(x(tick.value)), " ", bottom, "v4\"/>");
    svg += str("<path class=\"base\" d=\"M", kLeft, " ", bottom, "H", kWidth - kRight,
               "\"/></g><g class=\"ticks\">");
    for (const Tick& tick : up.ticks)
      svg += str("<text class=\"end\" x=\"", kLeft - 6, "\" y=\"", trimmed(y(tick.value) + 4), "\">",
                 tick.label, "</text>");
    for (const Tick& tick : across.ticks)
      svg += str("<text class=\"mid\" x=\"", trimmed(x(tick.value)), "\" y=\"", bottom + 19, "\">",
                 tick.label, "</text>");
    const auto title = [](const std::string& name, const std::string& unit, const char* more) {
      return str(as_html(name), unit.empty() ? "" : str(" (", unit, ")"), more);
    };
    svg += str("</g><text class=\"axis\" x=\"6\" y=\"16\">",
               title(axes.y, up.unit, y.factors ? ", equal factors" : ""),
               "</text><text class=\"axis end\" x=\"", kWidth - kRight, "\" y=\"", kHeight - 8, "\">",
               title(axes.x, across.unit, ""), "</text>\n");
    for (const PlaceMark& mark : axes.marks) {
      if (mark.x < x.from || mark.x > x.to) continue;
      svg += str("<path class=\"mark\" d=\"M", trimmed(x(mark.x)), " ", kTop, "V", bottom, "\"><title>",
                 as_html(mark.text), "</title></path>");
    }
  }
};

std::string path_of(const Plane& plane, const std::vector<Point>& points) {
  std::string path;
  for (const Point& point : points) path += str(path.empty() ? "M" : "L", plane.place(point));
  return path;
}

/// Between two edges.
std::string area_of(const Plane& plane, const std::vector<Point>& lower, const std::vector<Point>& upper) {
  std::string path = path_of(plane, upper);
  for (std::size_t i = lower.size(); i-- > 0;) path += "L" + plane.place(lower[i]);
  return path + "Z";
}

/// For the script, which shows the values at the pointer.
std::string values_of(const Curve& curve, std::size_t key, const std::vector<Point>& values) {
  std::string data = str("data-key=\"", key, "\" data-n=\"", as_html(curve.name), "\" data-p=\"");
  for (const Point& point : values) data += str(significant(point.x, 10), " ", significant(point.y, 5), " ");
  if (!values.empty()) data.pop_back();
  return data + "\"";
}

std::string drawn(const Plane& plane, const Curve& curve, std::size_t key) {
  const std::string style = str("s", curve.style);
  if (!curve.upper.empty())
    return str("<path class=\"band ", style, "\" data-key=\"", key, "\" d=\"",
               area_of(plane, curve.points, curve.upper), "\"/>\n");
  std::string svg = str("<g ", values_of(curve, key, curve.points), "><path class=\"line ", style, "\" d=\"",
                        path_of(plane, curve.points), "\"/>");
  if (curve.dots || curve.points.size() == 1) {
    for (const Point& point : curve.points)
      svg += str("<circle class=\"dot ", style, "\" cx=\"", trimmed(plane.x(point.x)), "\" cy=\"",
                 trimmed(plane.y(point.y)), "\" r=\"3.5\"/>");
  }
  return svg + "</g>\n";
}

/// The curve's newest value behind `row_before` and up to `x`; empty: it has none there.
std::string value_at(const std::vector<Point>& points, double row_before, double x, Quantity quantity) {
  const auto behind =
      std::upper_bound(points.begin(), points.end(), x, [](double at, const Point& p) { return at < p.x; });
  if (behind == points.begin() || std::prev(behind)->x <= row_before) return "";
  return shown(std::prev(behind)->y, quantity);
}

Table table_of(const Axes& axes, const std::vector<Curve>& curves) {
  Table table{.columns = {axes.x}};
  std::vector<double> places;
  for (const Curve& curve : curves) {
    table.columns.push_back(curve.name);
    for (const Point& point : curve.points) places.push_back(point.x);
  }
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  const std::size_t count = std::min(kRows, places.size());
  double row_before = -std::numeric_limits<double>::infinity();
  for (std::size_t row = 0; row < count; ++row) {
    const std::size_t at = count == 1 ? 0 : row * (places.size() - 1) / (count - 1);
    std::vector<std::string> cells{shown(places[at], axes.x_quantity)};
    for (const Curve& curve : curves)
      cells.push_back(value_at(curve.points, row_before, places[at], axes.y_quantity));
    row_before = places[at];
    table.rows.push_back(std::move(cells));
  }
  if (count < places.size()) table.caption = str(count, " of ", places.size(), " places that are drawn");
  return table;
}

std::vector<Key> keys_of(const std::vector<Curve>& curves, bool areas) {
  std::vector<Key> keys;
  for (const Curve& curve : curves) {
    Key::Mark mark = curve.dots ? Key::Mark::kDots : Key::Mark::kLine;
    if (!curve.upper.empty()) mark = Key::Mark::kBand;
    if (areas) mark = Key::Mark::kArea;
    keys.push_back({curve.name, curve.style, mark});
  }
  return keys;
}

}  // namespace

std::string line_chart(const Frame& frame, const Axes& axes, const std::vector<Curve>& curves) {
  Range over_x, over_y;
  for (const Curve& curve : curves) {
    for (const auto* points : {&curve.points, &curve.upper}) {
      for (const Point& point : *points) over_x.take(point.x), over_y.take(point.y);
    }
  }
  if (over_x.empty()) return "";
  const Plane plane(axes, over_x, over_y);
  std::string svg = plane.svg;
  for (std::size_t i = 0; i < curves.size(); ++i) svg += drawn(plane, curves[i], i);
  return figure(frame, keys_of(curves, false), kWidth, kHeight, svg, table_of(axes, curves),
                plane.attributes(axes));
}

std::string stacked_chart(const Frame& frame, const Axes& axes, const std::vector<Curve>& curves) {
  Range over_x, over_y;
  if (curves.empty() || curves[0].points.empty()) return "";
  std::vector<std::vector<Point>> edges{curves[0].points};
  for (Point& point : edges[0]) point.y = 0;
  for (const Curve& curve : curves) {
    edges.push_back(edges.back());
    for (std::size_t i = 0; i < std::min(curve.points.size(), edges.back().size()); ++i)
      edges.back()[i].y += curve.points[i].y;
  }
  for (const Point& point : edges.back()) over_x.take(point.x), over_y.take(point.y);
  const Plane plane(axes, over_x, over_y);
  std::string svg = plane.svg;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    svg += str("<path class=\"area s", curves[i].style, "\" ", values_of(curves[i], i, curves[i].points),
               " d=\"", area_of(plane, edges[i], edges[i + 1]), "\"/>\n");
  }
  return figure(frame, keys_of(curves, true), kWidth, kHeight, svg, table_of(axes, curves),
                plane.attributes(axes));
}

}  // namespace echelon::report
