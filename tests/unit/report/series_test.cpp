#include "report/record/series.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace echelon::report {
namespace {

TEST(Series, KeepsEveryValueOfAShortOne) {
  Series series(8);
  for (int x = 1; x <= 8; ++x) series.add(x, x * x);
  EXPECT_EQ(series.width(), 1U);
  const std::vector<Point> points = series.points();
  ASSERT_EQ(points.size(), 8U);
  for (int x = 1; x <= 8; ++x) EXPECT_EQ(points[static_cast<std::size_t>(x - 1)].y, x * x);
}

TEST(Series, AThinnedOneKeepsEverySpike) {
  Series series(64);
  for (int x = 0; x < 100'000; ++x) series.add(x, x == 70'001 ? 1000 : x == 99'990 ? -500 : x % 7);
  EXPECT_GT(series.width(), 1000U);
  const std::vector<Point> points = series.points();
  EXPECT_LE(points.size(), 128U);
  const auto has = [&](double x, double y) {
    return std::any_of(points.begin(), points.end(), [&](const Point& p) { return p.x == x && p.y == y; });
  };
  EXPECT_TRUE(has(70'001, 1000));
  EXPECT_TRUE(has(99'990, -500));
  EXPECT_EQ(series.greatest().x, 70'001);
  EXPECT_EQ(series.least().y, -500);
  EXPECT_EQ(series.last().x, 99'999);
}

TEST(Series, TheMeanOfAThinnedOneIsThatOfItsValues) {
  Series series(4);
  double sum = 0;
  for (int x = 0; x < 1001; ++x) {
    series.add(x, x % 10);
    sum += x % 10;
  }
  EXPECT_DOUBLE_EQ(series.mean(), sum / 1001);
}

TEST(Series, ThoseFilledTogetherHaveTheirMeansAtTheSamePlaces) {
  Series one(16);
  Series other(16);
  for (int x = 0; x < 1000; ++x) {
    one.add(x, 1);
    other.add(x, 2.0 * x);
  }
  const auto a = one.means();
  const auto b = other.means();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].x, b[i].x);
    EXPECT_DOUBLE_EQ(b[i].y, 2 * b[i].x);
  }
}

TEST(Series, IsDrawnByItsPlaces) {
  Series series(8);
  for (const double x : {5.0, 1.0, 9.0, 2.0}) series.add(x, x);
  const auto points = series.points();
  EXPECT_TRUE(
      std::is_sorted(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.x < b.x; }));
}

}  // namespace
}  // namespace echelon::report
