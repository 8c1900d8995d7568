#include "run/run_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include "base/files/new_file.h"
#include "support/in_temp_dir.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/variable.h"

namespace echelon {
namespace {

std::string refusal_of(const std::filesystem::path& root) {
  return test::refusal(Code::kUsage, [&] { const RunFolder folder(root, true, {.patience = {}}); });
}

using RunFolders = test::InTempDir;

TEST_F(RunFolders, MakesWhatIsMissing) {
  const RunFolder folder(dir.path() / "a" / "b", true);
  EXPECT_TRUE(std::filesystem::is_directory(dir.path() / "a" / "b" / "checkpoints"));
  EXPECT_TRUE(std::filesystem::is_directory(dir.path() / "a" / "b" / "logs"));
  EXPECT_EQ(folder.log(3), dir.path() / "a" / "b" / "logs" / "rank-3.log");
}

TEST_F(RunFolders, SecondOwnerIsRefusedWithTheFirstOnesName) {
  {
    const RunFolder first(dir.path(), true);
    const std::string refusal = refusal_of(dir.path());
    EXPECT_MENTIONS(refusal, "in use by process " + std::to_string(getpid()) + " on ", dir.path().string());
    EXPECT_NO_THROW(RunFolder(dir.path(), false)) << "other ranks of the same job take no lock";
  }
  EXPECT_EQ(refusal_of(dir.path()), "accepted") << "the lock ends with its owner";
}

TEST_F(RunFolders, RefusalDoesNotEraseTheOwnersName) {
  const RunFolder first(dir.path(), true);
  EXPECT_EQ(refusal_of(dir.path()), refusal_of(dir.path()));
  EXPECT_MENTIONS(refusal_of(dir.path()), "process");
}

TEST_F(RunFolders, LockOfAKilledProcessIsGone) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunFolder folder(dir.path(), true);
    (void)!write(ready[1], "x", 1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_MENTIONS(refusal_of(dir.path()), "process " + std::to_string(child));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(refusal_of(dir.path()), "accepted");
  close(ready[0]);
  close(ready[1]);
}

TEST_F(RunFolders, AfterALossGoesOnWithoutALockOfTheSameJobOnly) {
  test::Variable job("SLURM_JOB_ID", "17");
  const RunFolder lost(dir.path(), true);  // as a file server keeps the lock of a node that died
  const RunFolderRules rules{.patience = {}, .after_loss = true};
  EXPECT_NO_THROW(RunFolder(dir.path(), true, rules));
  EXPECT_NE(refusal_of(dir.path()), "accepted") << "an ordinary start";
  job.set("18");
  EXPECT_THROW(RunFolder(dir.path(), true, rules), Error) << "another job";
  job.set(std::nullopt);
  EXPECT_THROW(RunFolder(dir.path(), true, rules), Error) << "no job";
}

TEST_F(RunFolders, TakesTheLockOfALostStartWhenThatLetsGo) {
  test::Variable job("SLURM_JOB_ID", "17");
  auto lost = std::make_unique<RunFolder>(dir.path(), true);
  RunFolder folder(dir.path(), true, {.patience = {}, .after_loss = true});
  folder.lock_if_free();
  EXPECT_TRUE(folder.lacks_lock());
  lost.reset();
  folder.lock_if_free();
  EXPECT_FALSE(folder.lacks_lock());
  job.set("18");
  EXPECT_MENTIONS(refusal_of(dir.path()), "(Slurm job 17)");
}

TEST_F(RunFolders, AStopEndsTheWaitForItsRelease) {
  const RunFolder lead(dir.path(), true);
  const RunFolder folder(dir.path(), false);
  const StopSignal signal;
  std::thread stopping([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    kill(getpid(), SIGTERM);
  });
  folder.wait_for_release(signal);
  EXPECT_NE(signal.requested(), nullptr);
  stopping.join();
}

TEST_F(RunFolders, ARequeuedJobGoesOnWithoutTheLockOfItsEarlierStart) {
  test::Variable job("SLURM_JOB_ID", "17");
  const RunFolder lost(dir.path(), true);
  job.set("1");
  test::Variable requeues("SLURM_RESTART_COUNT", "1");
  EXPECT_MENTIONS(refusal_of(dir.path()), "(Slurm job 17); wait for it");
  job.set("17");
  EXPECT_EQ(refusal_of(dir.path()), "accepted");
  EXPECT_MENTIONS(refusal_of(dir.path()), "(Slurm job 17, requeue 1); wait for it") << "a second run of it";
  requeues.set("2");
  EXPECT_EQ(refusal_of(dir.path()), "accepted");
}

TEST_F(RunFolders, WaitsForAnOwnerThatIsGoing) {
  auto first = std::make_unique<RunFolder>(dir.path(), true);
  std::thread going([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    first.reset();
  });
  EXPECT_NO_THROW(RunFolder(dir.path(), true, {.patience = std::chrono::minutes(2)}));
  going.join();
}

TEST_F(RunFolders, OfAnotherUserIsRefusedAndLeftAlone) {
  if (::geteuid() != 0) {
    EXPECT_MENTIONS(refusal_of("/"), "belongs to user 0");
    return;
  }
  const auto theirs = dir.path() / "theirs";
  std::filesystem::create_directory(theirs);
  ASSERT_EQ(::chown(theirs.c_str(), 54321, 54321), 0);
  EXPECT_MENTIONS(refusal_of(theirs), "belongs to user 54321", "set run.allow_foreign_folder=true");
  EXPECT_TRUE(std::filesystem::is_empty(theirs));
  const auto mine = dir.path() / "mine";
  std::filesystem::create_directories(mine / "logs");
  ASSERT_EQ(::chown((mine / "logs").c_str(), 54321, 54321), 0);
  EXPECT_MENTIONS(refusal_of(mine), "logs' belongs to user 54321");
  EXPECT_NO_THROW(RunFolder(theirs, true, {.allow_foreign = true}));
}

TEST_F(RunFolders, TakesTheDraftsOfKilledStartsAway) {
  fs::publish_file(dir.path() / "goodput.json.0123abcd.tmp", "half", Code::kUsage);
  const RunFolder folder(dir.path(), true);
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "goodput.json.0123abcd.tmp"));
}

TEST_F(RunFolders, OfAStartThatFailedGoesWhenTheStartMadeIt) {
  const auto root = dir.path() / "runs" / "name";
  {
    RunFolder folder(root, true);
    fs::publish_file(folder.log(0), "why", Code::kUsage);
    fs::publish_file(root / "goodput.json", "{}", Code::kUsage);
    folder.remove_if_made();
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  }
  for (const char* other : {"notes", "logs/peer-failure.txt", "checkpoints/step-1"}) {
    RunFolder folder(root, true);
    fs::publish_file(root / other, "mine", Code::kUsage);
    folder.remove_if_made();
    EXPECT_TRUE(std::filesystem::exists(root / other));
    EXPECT_TRUE(std::filesystem::exists(root / ".lock")) << "all or nothing";
    std::filesystem::remove_all(dir.path() / "runs");
  }
  std::filesystem::create_directories(root);  // as `echelon submit` does
  RunFolder folder(root, true);
  folder.remove_if_made();
  EXPECT_TRUE(std::filesystem::is_directory(root / "logs"));
}

TEST_F(RunFolders, AFileInTheWayIsNamed) {
  fs::publish_file(dir.path() / "taken", "", Code::kUsage);
  EXPECT_MENTIONS(refusal_of(dir.path() / "taken"), "taken");
}

}  // namespace
}  // namespace echelon
