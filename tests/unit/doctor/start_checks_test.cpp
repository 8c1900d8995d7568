#include "app/doctor/checks/start_checks.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace echelon::app::doctor {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(StartChecks, MemoryIsThatOfTheLargestNodeThatTheJobMayGet) {
  const auto nodes = parse_slurm_records(
      "NodeName=n0 RealMemory=8192 Partitions=small,main\nNodeName=n1 RealMemory=65536 Partitions=big\n"
      "NodeName=n2 RealMemory=x Partitions=main\nNodeName=n3 RealMemory=1 Partitions=new\n");
  const RecipeSize size{.rank_bytes = 4 * kGiB, .staging_bytes = kGiB};
  const auto verdict = [&](int ranks, const char* partitions) {
    return check_node_memory(size, ranks, nodes, partitions).verdict;
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

TEST(StartChecks, OnlyAKnownNumberOfSavesLimitsTheRoomForCheckpoints) {
  const test::TempDir folder;
  const auto needed = [&](const TrainOptions& train, const CheckpointOptions& checkpoint) {
    Recipe recipe;
    recipe.run.dir = folder.path().string();
    recipe.train = train;
    recipe.checkpoint = checkpoint;
    const Finding finding = check_room(recipe, {.checkpoint_bytes = 1}, {.available_bytes = 1000});
    return finding.verdict == Verdict::kOk ? finding.values["checkpoints"].get<int>() : -1;
  };
  TrainOptions steps;
  steps.steps = 100;
  TrainOptions epochs = steps;
  epochs.epochs = 3;
  EXPECT_EQ(needed(steps, {.every_steps = 50}), 2);
  EXPECT_EQ(needed(steps, {.every_steps = 10, .keep_last = 1}), 3) << "two commits always stay";
  EXPECT_EQ(needed(steps, {.every_steps = 10, .keep_last = 0}), 10);
  EXPECT_EQ(needed(steps, {.every_steps = 0}), 1) << "that of the end";
  EXPECT_EQ(needed(steps, {.every_steps = 0, .every_minutes = 5}), 4);
  EXPECT_EQ(needed(steps, {.every_steps = 0, .auto_interval = true}), 4);
  EXPECT_EQ(needed(steps, {.every_steps = 0, .keep_best = true}), 5);
  EXPECT_EQ(needed(epochs, {.every_steps = 1000}), 4);
  EXPECT_EQ(needed(epochs, {.every_steps = 10, .keep_last = 0}), -1);
  EXPECT_EQ(needed(epochs, {.every_steps = 10, .keep_every_steps = 20}), -1);
  EXPECT_EQ(needed(steps, {.every_minutes = 5, .keep_last = 0}), -1);
}

}  // namespace
}  // namespace echelon::app::doctor
