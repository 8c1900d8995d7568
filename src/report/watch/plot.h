#pragma once
#include <string>
#include <vector>

#include "report/record/series.h"

namespace echelon::report {

/// A curve in characters.
struct PlotSize {
  int columns = 60;
  int rows = 8;
  bool braille = true;  ///< 2 x 4 dots in a character; else '*', for terminals without UTF-8
};

/// `rows` lines of `columns` characters, the highest value at the top. Places between two points are joined.
[[nodiscard]] std::vector<std::string> plot(const std::vector<Point>& points, const PlotSize& size);

}  // namespace echelon::report
