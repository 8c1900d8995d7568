#include "app/supervise/run_steps.h"

#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/format/names.h"
#include "run/goodput.h"
#include "run/run_folder.h"
#include "support/in_temp_dir.h"

namespace echelon::supervise {
namespace {

using RunSteps = test::InTempDir;
TEST_F(RunSteps, TheCommittedOneIsOfTheLastCommitNotOfTheHighestStep) {
  EXPECT_EQ(committed_step(dir.path()), 0);
  const auto now = std::filesystem::file_time_type::clock::now();
  const auto commit = [&](std::int64_t step, int seconds) {
    const auto folder = dir.path() / "checkpoints" / checkpoint::step_folder_name(step, "0000000a");
    std::filesystem::create_directories(folder);
    std::ofstream(folder / checkpoint::kCommitFile) << "";
    std::filesystem::last_write_time(folder / checkpoint::kCommitFile, now + std::chrono::seconds(seconds));
  };
  commit(50, 1);
  commit(100, 2);  // damaged: the run goes on from step 50
  EXPECT_EQ(committed_step(dir.path()), 100);
  commit(60, 3);
  EXPECT_EQ(committed_step(dir.path()), 60);
  commit(70, 3);
  EXPECT_EQ(committed_step(dir.path()), 70) << "a clock of whole seconds";
  std::filesystem::create_directories(dir.path() / "checkpoints" /
                                      checkpoint::step_folder_name(90, "0000000a"));
  EXPECT_EQ(committed_step(dir.path()), 70) << "not committed";
}

TEST_F(RunSteps, TheResumedOneIsOfThisStartOfTheJob) {
  const auto step = [&](const char* job, std::int64_t requeues) {
    return resumed_step(dir.path(), job, requeues);
  };
  EXPECT_EQ(step("17", 0), 0);
  Goodput account;
  account.starts = {{.job = "16", .first_step = 90},
                    {.job = "17", .first_step = 20},
                    {.job = "17", .first_step = 40, .in_place = InPlace{}},
                    {.job = "17", .in_place = InPlace{}},  // lost before it knew
                    {.job = "17", .restart = 1, .first_step = 10}};
  std::ofstream(dir.path() / "goodput.json") << account.to_json();
  EXPECT_EQ(step("17", 0), 40) << "in memory, perhaps";
  EXPECT_EQ(step("17", 1), 10) << "the memory of the nodes before is gone";
  EXPECT_EQ(step("18", 0), 0);
  std::ofstream(dir.path() / "goodput.json") << "{";
  EXPECT_EQ(step("17", 0), 0);
}

TEST_F(RunSteps, EachStartOfRanksOpensTheFolderAnew) {
  EXPECT_EQ(last_opening(dir.path()), "");
  const auto opened = [&](const char* owner, int seconds) {
    std::ofstream(dir.path() / kRunLock) << owner;
    std::filesystem::last_write_time(dir.path() / kRunLock,
                                     std::filesystem::file_time_type() + std::chrono::seconds(seconds));
    return last_opening(dir.path());
  };
  const auto first = opened("process 7 on n0 (Slurm job 17)", 1);
  EXPECT_NE(first, "");
  EXPECT_EQ(last_opening(dir.path()), first);
  EXPECT_NE(opened("process 8 on n0 (Slurm job 17)", 1), first);
  EXPECT_NE(opened("process 7 on n0 (Slurm job 17)", 2), first) << "the first process of a container";
  std::filesystem::remove(dir.path() / kRunLock);
  std::filesystem::create_directory(dir.path() / kRunLock);
  EXPECT_EQ(last_opening(dir.path()), std::nullopt);
}

}  // namespace
}  // namespace echelon::supervise
