#include "report/record/log_line.h"

#include <gtest/gtest.h>

#include <string>

namespace echelon::report {
namespace {

TEST(LogLine, HasItsOwnDifferenceFromUtc) {
  const auto time_of = [](const std::string& time) {
    const auto line = parse_log_line(time + " I [rank 0/8 n0] text");
    return line ? line->time_s : -1;
  };
  EXPECT_EQ(time_of("1970-01-01T01:00:00.500+01:00"), 0.5);
  EXPECT_EQ(time_of("1969-12-31T20:30:00.000-03:30"), -1) << "no log is as old";
  EXPECT_EQ(time_of("1970-01-01T00:00:00.000-03:30"), 12'600);
  // The clock is set back.
  EXPECT_EQ(time_of("2026-10-25T02:00:00.000+01:00") - time_of("2026-10-25T02:59:59.000+02:00"), 1);
  for (const char* bad :
       {"2026-10-25T02:00:00.000+1:000", "2026-10-25T02:00:00.000 01:00", "2026-10-25T02:00:00.000+25:00"})
    EXPECT_EQ(time_of(bad), -1) << bad;
}

}  // namespace
}  // namespace echelon::report
