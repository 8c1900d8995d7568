#include "report/charts/text.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace echelon::report {
namespace {

TEST(PageText, WritesQuantities) {
  EXPECT_EQ(shown(1234567, Quantity::kStep), "1,234,567");
  EXPECT_EQ(shown(4.09312, Quantity::kNumber), "4.0931");
  EXPECT_EQ(shown(12345.6, Quantity::kNumber), "12,346");
  EXPECT_EQ(shown(-1500, Quantity::kNumber), "-1,500");
  EXPECT_EQ(shown(0.431, Quantity::kShare), "43.1 %");
  EXPECT_EQ(shown(0, Quantity::kSeconds), "0 s");
  EXPECT_EQ(shown(0.0421, Quantity::kSeconds), "42.1 ms");
  EXPECT_EQ(shown(90, Quantity::kSeconds), "90 s");
  EXPECT_EQ(shown(3.5 * 1073741824.0, Quantity::kBytes), "3.5 GiB");
  EXPECT_EQ(shown_time(3 * 3600 + 60), "3 h 1 min");
  EXPECT_EQ(shown_time(7199.9), "2 h 0 min");
  EXPECT_EQ(shown_time(3 * 86400.0), "3 d 0 h");
  EXPECT_EQ(shown_per_mille(1000), "100.0 %");
  EXPECT_EQ(shown_utc(1795502901.4), "2026-11-24 06:48:21 UTC");
  EXPECT_EQ(shown_utc(-1), "at no known time");
  EXPECT_EQ(shown_utc(1e300), "at no known time");
}

void expect_labels(const Ticks& ticks, const std::vector<std::string>& labels, const std::string& unit) {
  EXPECT_EQ(mapped(ticks.ticks, &Tick::label), labels);
  EXPECT_EQ(ticks.unit, unit);
}

TEST(TimeAxis, HasRoundTimesInTheUnitThatFits) {
  expect_labels(linear_ticks(0, 110, 5, Quantity::kSeconds), {"0", "50", "100"}, "s");
  expect_labels(linear_ticks(0, 3000, 5, Quantity::kSeconds), {"0", "10", "20", "30", "40", "50"}, "min");
  expect_labels(linear_ticks(0, 5 * 86400.0, 5, Quantity::kSeconds), {"0", "1", "2", "3", "4", "5"}, "d");
  expect_labels(linear_ticks(0, 0.0042, 4, Quantity::kSeconds), {"0", "2", "4"}, "ms");
}

TEST(Axis, HasRoundValues) {
  expect_labels(linear_ticks(1, 240, 5, Quantity::kStep), {"50", "100", "150", "200"}, "");
  expect_labels(linear_ticks(0, 1e6, 5, Quantity::kStep), {"0", "200k", "400k", "600k", "800k", "1M"}, "");
  expect_labels(linear_ticks(1, 3, 5, Quantity::kStep), {"1", "2", "3"}, "");
  expect_labels(linear_ticks(0, 3.2 * 1048576, 4, Quantity::kBytes), {"0", "1", "2", "3"}, "MiB");
  expect_labels(linear_ticks(-0.02, 0.05, 4, Quantity::kNumber), {"-0.02", "0", "0.02", "0.04"}, "");
  expect_labels(factor_ticks(0.5, 3000, Quantity::kNumber), {"1", "10", "100", "1000"}, "");
  EXPECT_TRUE(linear_ticks(1, 1, 5, Quantity::kNumber).ticks.empty());
}

TEST(Axis, OfHostileRangesEndsWithFewTicks) {
  for (const double size : {1e-300, 1e-5, 1.0, 1e18, 1e300}) {
    EXPECT_LT(linear_ticks(-size, size, 5, Quantity::kNumber).ticks.size(), 20U) << size;
    EXPECT_LT(linear_ticks(1e15, 1e15 + size, 5, Quantity::kStep).ticks.size(), 20U) << size;
    EXPECT_LT(factor_ticks(1e-300, size + 1e-299, Quantity::kNumber).ticks.size(), 20U) << size;
  }
}

}  // namespace
}  // namespace echelon::report
