#include "app/supervise/run_steps.h"

#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/format/names.h"
#include "support/temp_dir.h"

namespace echelon::supervise {
namespace {

TEST(RunSteps, TheCommittedOneIsOfTheLastCommitNotOfTheHighestStep) {
  const test::TempDir dir;
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

}  // namespace
}  // namespace echelon::supervise
