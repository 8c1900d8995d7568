#include "report/watch/plot.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace echelon::report {
namespace {

/// Dots of a field, and the characters that show them.
class Dots {
 public:
  explicit Dots(const PlotSize& size)
      : size_(size),
        across_(size.braille ? 2 : 1),
        down_(size.braille ? 4 : 1),
        set_(static_cast<std::size_t>(width() * height())) {}

  [[nodiscard]] int width() const { return size_.columns * across_; }
  [[nodiscard]] int height() const { return size_.rows * down_; }
  void set(int x, int y) {
    if (x >= 0 && x < width() && y >= 0 && y < height()) set_[index(x, y)] = true;
  }
  void line(int x0, int y0, int x1, int y1) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) set(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps);
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (int row = 0; row < size_.rows; ++row) {
      std::string line;
      for (int column = 0; column < size_.columns; ++column) line += character(column, row);
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  [[nodiscard]] std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width()) + static_cast<std::size_t>(x);
  }
  [[nodiscard]] bool at(int x, int y) const { return set_[index(x, y)]; }
  [[nodiscard]] std::string character(int column, int row) const {
    if (!size_.braille) return at(column, row) ? "*" : " ";
    // Unicode's order of the dots of a braille character.
    constexpr std::array<std::array<unsigned, 2>, 4> kBits{
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    unsigned bits = 0;
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 2; ++x)
        bits |= at(2 * column + x, 4 * row + y)
                    ? kBits[static_cast<std::size_t>(y)][static_cast<std::size_t>(x)]
                    : 0U;
    }
    if (bits == 0) return " ";
    return {static_cast<char>(0xE2), static_cast<char>(0xA0U | bits >> 6U),
            static_cast<char>(0x80U | (bits & 0x3FU))};
  }

  PlotSize size_;
  int across_;
  int down_;
  std::vector<bool> set_;
};

}  // namespace

std::vector<std::string> plot(const std::vector<Point>& points, const PlotSize& size) {
  Dots dots(size);
  if (points.empty()) return dots.lines();
  const double low = std::ranges::min_element(points, {}, &Point::y)->y;
  const double high = std::ranges::max_element(points, {}, &Point::y)->y;
  const double from = points.front().x;
  const double width = std::max(points.back().x - from, 1e-300);
  const double height = std::max(high - low, 1e-300);
  int last_x = 0;
  int last_y = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const int x = static_cast<int>(std::lround((points[i].x - from) / width * (dots.width() - 1)));
    const int y = static_cast<int>(std::lround((high - points[i].y) / height * (dots.height() - 1)));
    i == 0 ? dots.set(x, y) : dots.line(last_x, last_y, x, y);
    last_x = x;
    last_y = y;
  }
  return dots.lines();
}

}  // namespace echelon::report
