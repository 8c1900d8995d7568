#include "app/doctor/machine/slurm_state.h"

#include <gtest/gtest.h>

#include "app/doctor/machine/version.h"

namespace echelon::app::doctor {
namespace {

TEST(SlurmState, ReadsTimesAsSlurmWritesThem) {
  EXPECT_EQ(parse_seconds("30 sec"), 30);
  EXPECT_EQ(parse_seconds("90"), 5400);
  EXPECT_EQ(parse_seconds("15:30"), 930);
  EXPECT_EQ(parse_seconds("02:03:04"), 7384);
  EXPECT_EQ(parse_seconds("1-02"), 93600);
  EXPECT_EQ(parse_seconds("1-02:03"), 93780);
  EXPECT_EQ(parse_seconds("1-02:03:04"), 93784);
  for (const char* text : {"", "UNLIMITED", "NONE", "-1", "1:", "1:2:3:4", "1-2-3", "30 min", "1:2 sec", "x",
                           "99999999999999999999"})
    EXPECT_EQ(parse_seconds(text), std::nullopt) << text;
}

TEST(SlurmState, KeepsSpacesInsideOfValues) {
  const auto nodes = parse_records(
      "NodeName=n0 OS=Linux 6.1 #1 SMP State=DOWN* Reason=Not responding [root@x] "
      "Gres=(null)\n\nNodeName=n1\n");
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0]["OS"], "Linux 6.1 #1 SMP");
  EXPECT_EQ(nodes[0]["Reason"], "Not responding [root@x]");
  EXPECT_EQ(nodes[0]["Gres"], "");
  EXPECT_EQ(nodes[1]["NodeName"], "n1");
  EXPECT_EQ(nodes[1]["State"], "");
}

TEST(SlurmState, ReadsSettingsLineByLine) {
  const SlurmRecord settings = parse_settings(
      "Configuration data as of today\nKillWait                = 30 sec\nMpiParams = (null)\r\n");
  EXPECT_EQ(settings["KillWait"], "30 sec");
  EXPECT_EQ(settings["MpiParams"], "");
}

TEST(Version, IsTheFirstNumberOfAText) {
  EXPECT_EQ(find_version("PMIx 4.2.2rc2"), (Version{{4, 2, 2}}));
  EXPECT_EQ(find_version("25.11.6"), (Version{{25, 11, 6}}));
  EXPECT_EQ(find_version("v5"), (Version{{5, 0, 0}}));
  EXPECT_EQ(find_version("22.05.8-p1"), (Version{{22, 5, 8}}));
  EXPECT_EQ(find_version("none"), std::nullopt);
  EXPECT_EQ(find_version("99999999999999.1"), std::nullopt);
  EXPECT_LT(*find_version("24.11.7"), *find_version("25.05.2"));
}

}  // namespace
}  // namespace echelon::app::doctor
