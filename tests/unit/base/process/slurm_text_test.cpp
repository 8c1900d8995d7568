#include "base/process/slurm_text.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

TEST(SlurmText, ReadsTimesAsSlurmWritesThem) {
  EXPECT_EQ(slurm_seconds("30 sec"), 30);
  EXPECT_EQ(slurm_seconds("90"), 5400);
  EXPECT_EQ(slurm_seconds("15:30"), 930);
  EXPECT_EQ(slurm_seconds("02:03:04"), 7384);
  EXPECT_EQ(slurm_seconds("1-02"), 93600);
  EXPECT_EQ(slurm_seconds("1-02:03"), 93780);
  EXPECT_EQ(slurm_seconds("1-02:03:04"), 93784);
  for (const char* text : {"", "UNLIMITED", "NONE", "-1", "1:", "1:2:3:4", "1-2-3", "30 min", "1:2 sec", "x",
                           "99999999999999999999"})
    EXPECT_EQ(slurm_seconds(text), std::nullopt) << text;
}

TEST(SlurmText, KeepsSpacesInsideOfValues) {
  const auto nodes = parse_slurm_records(
      "NodeName=n0 OS=Linux 6.1 #1 SMP State=DOWN* Reason=Not responding [root@x] "
      "Gres=(null)\n\nNodeName=n1\n");
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0]["OS"], "Linux 6.1 #1 SMP");
  EXPECT_EQ(nodes[0]["Reason"], "Not responding [root@x]");
  EXPECT_EQ(nodes[0]["Gres"], "");
  EXPECT_EQ(nodes[1]["NodeName"], "n1");
  EXPECT_EQ(nodes[1]["State"], "");
}

TEST(SlurmText, CountsTheFirstValueOfAField) {
  const SlurmRecord job = parse_slurm_record("JobId=5 State=UP Comment=a State=x y Nodes=2\n");
  EXPECT_EQ(job["State"], "UP");
  EXPECT_EQ(job["Comment"], "a");
  EXPECT_EQ(job["Nodes"], "2");
}

TEST(SlurmText, ReadsSettingsLineByLine) {
  const SlurmRecord settings = parse_slurm_settings(
      "Configuration data as of today\nKillWait                = 30 sec\nMpiParams = (null)\r\n");
  EXPECT_EQ(settings["KillWait"], "30 sec");
  EXPECT_EQ(settings["MpiParams"], "");
}

}  // namespace
}  // namespace echelon
