#pragma once
#include <string>
#include <vector>

#include "report/charts/figure.h"
#include "report/record/series.h"

namespace echelon::report {

/// A curve of a chart.
struct Curve {
  std::string name;
  std::vector<Point> points;  ///< by x
  int style = 0;
  bool dots = false;         ///< a mark for each point: few values
  std::vector<Point> upper;  ///< with `points` the edges of a band; empty: a line. As many as `points`
};

/// A place on the x axis that something happened at.
struct PlaceMark {
  double x = 0;
  std::string text;
};

/// The axes of a chart.
struct Axes {
  std::string x = "step";
  Quantity x_quantity = Quantity::kStep;
  std::string y;
  Quantity y_quantity = Quantity::kNumber;
  bool from_zero = false;       ///< the y axis begins at 0
  bool may_be_factors = false;  ///< equal factors on the y axis, where the values differ by a lot
  std::vector<PlaceMark> marks;
};

/// Curves over one axis. Empty without a point.
[[nodiscard]] std::string line_chart(const Frame& frame, const Axes& axes, const std::vector<Curve>& curves);

/// Curves with the same x, put on top of one another.
[[nodiscard]] std::string stacked_chart(const Frame& frame, const Axes& axes,
                                        const std::vector<Curve>& curves);

}  // namespace echelon::report
