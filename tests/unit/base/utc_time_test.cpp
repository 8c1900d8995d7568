#include "base/utc_time.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

TEST(UtcTime, ReadsTheFormsThatAwsWrites) {
  EXPECT_EQ(parse_utc("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(parse_utc("2026-03-01T11:30:00Z"), 1772364600);  // date -u -d ... +%s
  EXPECT_EQ(parse_utc("2026-03-01T11:30Z"), 1772364600);
  EXPECT_EQ(parse_utc("2026-03-01T11:30:00+00:00"), 1772364600);
  EXPECT_EQ(parse_utc("2026-03-01T11:30:00.250Z"), 1772364600.25);
  EXPECT_EQ(parse_utc("2024-02-29T23:59:59Z"), 1709251199);
}

TEST(UtcTime, TakesNoOtherText) {
  for (const char* text :
       {"", "now", "2026-03-01", "2026-03-01T11:30:00", "2026-03-01 11:30:00Z", "2026-3-1T11:30:00Z",
        "2026-13-01T11:30:00Z", "2026-00-01T11:30:00Z", "2026-02-30T11:30:00Z", "2025-02-29T11:30:00Z",
        "2026-03-01T24:30:00Z", "2026-03-01T11:60:00Z", "2026-03-01T11:30:60Z", "2026-03-01T11:30:00+01:00",
        "2026-03-01T11:30:00Zz", "1969-12-31T23:59:59Z", "-026-03-01T11:30:00Z", "2026-03-01T11:3", "2026"})
    EXPECT_EQ(parse_utc(text), std::nullopt) << text;
}

TEST(UtcTime, TellsTheDayOnlyWhenItIsAnother) {
  EXPECT_EQ(describe_utc(1772364600, 1772360000), "11:30:00 UTC");
  EXPECT_EQ(describe_utc(1772364600, 1772100000), "2026-03-01 11:30:00 UTC");
}

}  // namespace
}  // namespace echelon
