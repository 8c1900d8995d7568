#include "metrics/line.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "support/temp_dir.h"

namespace echelon::metrics {
namespace {

std::string text_of(const Line& line) {
  std::string text;
  for (const Value& value : line.values) text += value.tag + "=" + number_text(value.value) + " ";
  return text;
}

TEST(MetricsLine, NumbersOfObjectsHaveTheirNameBefore) {
  const auto line = parse_line(
      R"({"step": 7, "time": 12.5, "loss": 0.1, "spread": {"work_s": {"max": 2, "max_rank": 3}}, "mfu": null,)"
      R"( "text": "x", "list": [1], "on": true})");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->step, 7);
  EXPECT_EQ(line->time_s, 12.5);
  EXPECT_EQ(text_of(*line), "loss=0.1 spread/work_s/max=2 spread/work_s/max_rank=3 step=7 time=12.5 ");
}

TEST(MetricsLine, WhatIsNoLineIsNone) {
  for (const char* text : {"", "[1]", "{}", R"({"step": "1"})", R"({"step": 1.5})", R"({"step": 1)", "\xff",
                           R"({"step": 1e400})", R"({"step": 1, "a": {"b": {"c": {"d": {"e": 1}}}}})"})
    EXPECT_FALSE(parse_line(text)) << text;
  EXPECT_FALSE(parse_line(std::string(200'000, '[')));
}

TEST(MetricsLine, NamesThatCouldHarmAreLeftOut) {
  const auto line = parse_line("{\"step\": 1, \"a\\nb\": 1, \"\": 2, \"\\u007f\": 3, \"" +
                               std::string(kMostTagBytes + 1, 'x') + "\": 4}");
  ASSERT_TRUE(line);
  EXPECT_EQ(text_of(*line), "step=1 ");
}

class MetricsLines : public ::testing::Test {
 protected:
  std::string steps(const std::string& text) {
    std::ofstream(path(), std::ios::binary) << text;
    std::string steps;
    const LineCounts counts =
        for_each_line(path(), [&](const Line& line) { steps += std::to_string(line.step) + " "; });
    return steps + "of " + std::to_string(counts.lines) + ", not " + std::to_string(counts.left_out);
  }
  [[nodiscard]] std::filesystem::path path() const { return dir_.path() / "metrics.jsonl"; }

 private:
  test::TempDir dir_;
};

TEST_F(MetricsLines, AreReadInTheirOrderAndOthersCounted) {
  EXPECT_EQ(steps("{\"step\":1}\nno\n\n{\"step\":3}\n{\"step\":2}"), "1 3 2 of 3, not 1");
  EXPECT_EQ(steps(""), "of 0, not 0");
}

TEST_F(MetricsLines, ThatAreTooLongAreLeftOutAndCostNoMemory) {
  const std::string filler(3 * kMostLineBytes, ' ');
  EXPECT_EQ(steps("{\"step\":1}\n{\"step\":" + filler + "2}\n{\"step\":3}\n" + filler), "1 3 of 2, not 2");
}

TEST_F(MetricsLines, CrossTheBordersOfReads) {
  std::string text;
  for (int step = 0; step < 30'000; ++step) text += "{\"step\":5, \"loss\":1.25}\n";
  EXPECT_TRUE(steps(text).ends_with(" of 30000, not 0"));
}

TEST_F(MetricsLines, OfALinkAreNotRead) {
  std::ofstream(path()) << "{\"step\":1}\n";
  std::filesystem::create_symlink(path(), path().parent_path() / "link");
  EXPECT_THROW(for_each_line(path().parent_path() / "link", [](const Line&) {}), Error);
}

}  // namespace
}  // namespace echelon::metrics
