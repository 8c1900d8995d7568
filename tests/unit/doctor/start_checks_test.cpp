#include "app/doctor/checks/start_checks.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace echelon::app::doctor {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(StartChecks, MemoryIsThatOfTheLargestNodeThatTheJobMayGet) {
  const auto nodes = parse_records(
      "NodeName=n0 RealMemory=8192 Partitions=small,main\nNodeName=n1 RealMemory=65536 Partitions=big\n"
      "NodeName=n2 RealMemory=x Partitions=main\nNodeName=n3 RealMemory=1 Partitions=new\n");
  const RecipeSize size{.rank_bytes = 4 * kGiB, .staging_bytes = kGiB};
  const auto verdict = [&](int ranks, const char* partitions) {
    return check_node_memory(size, {.ranks_per_node = ranks}, nodes, partitions).verdict;
  };
  EXPECT_EQ(verdict(1, "main"), Verdict::kOk);
  EXPECT_EQ(verdict(2, "main"), Verdict::kFault);
  EXPECT_EQ(verdict(2, "main,big"), Verdict::kOk);
  EXPECT_EQ(verdict(11, ""), Verdict::kWarning);
  EXPECT_EQ(verdict(14, ""), Verdict::kFault);
  EXPECT_EQ(verdict(14, "new"), Verdict::kUnknown) << "Slurm was not told";
  EXPECT_EQ(verdict(14, "none"), Verdict::kUnknown);
}

TEST(StartChecks, RoomIsNeededForCheckpointsThatAreStillToCome) {
  const test::TempDir folder;
  Recipe recipe;
  recipe.run.dir = folder.path().string();
  recipe.train.steps = 100;
  recipe.checkpoint.every_steps = 10;
  recipe.checkpoint.keep_last = 2;
  const auto verdict = [&](std::uint64_t available) {
    return check_room(recipe, {.checkpoint_bytes = kGiB}, {.available_bytes = available}).verdict;
  };
  EXPECT_EQ(verdict(3 * kGiB), Verdict::kOk);
  EXPECT_EQ(verdict(3 * kGiB - 1), Verdict::kFault);
  for (const char* step : {"step-000000010.00000000", "step-000000020.00000000"})
    std::filesystem::create_directories(folder.path() / "checkpoints" / step);
  EXPECT_EQ(verdict(kGiB), Verdict::kOk);
  std::filesystem::create_directories(folder.path() / "checkpoints" / "step-000000030.00000000");
  EXPECT_EQ(verdict(kGiB), Verdict::kOk);
  EXPECT_EQ(verdict(kGiB - 1), Verdict::kFault);
}

}  // namespace
}  // namespace echelon::app::doctor
