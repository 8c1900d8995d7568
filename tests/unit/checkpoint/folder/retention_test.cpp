// Which checkpoints stay, how the others go, and who is in the way.
#include "checkpoint/folder/retention.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/files/disk.h"
#include "base/files/fs.h"
#include "base/process/process.h"
#include "base/str.h"
#include "checkpoint/folder/lease.h"
#include "checkpoint/format/names.h"
#include "checkpoint/read/leased_reader.h"
#include "checkpoint/read/verify.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT
using echelon::test::TempDir;

std::string name_of_step(std::int64_t step) {
  return step_folder_name(step, "0000000a");
}
StepFolder folder(std::int64_t step, StepState state = StepState::kWhole, std::string reader = "") {
  return {name_of_step(step), step, state, std::move(reader)};
}

/// Steps that a plan removes.
std::vector<std::int64_t> going(const std::vector<StepFolder>& steps, const RetentionPolicy& policy) {
  std::vector<std::int64_t> gone;
  for (const PruneDecision& decision : plan_prune(steps, policy)) {
    EXPECT_FALSE(decision.why.empty());
    if (decision.goes) gone.push_back(decision.step.step);
  }
  return gone;
}
using Steps = std::vector<std::int64_t>;

std::vector<StepFolder> ten() {
  std::vector<StepFolder> steps;
  for (int step = 1; step <= 10; ++step) steps.push_back(folder(step * 100));
  return steps;
}

TEST(PlanPrune, KeepsTheLast) {
  EXPECT_EQ(going(ten(), {.keep_last = 8}), (Steps{100, 200}));
  EXPECT_EQ(going(ten(), {.keep_last = 0}), Steps{});
  EXPECT_EQ(going(ten(), {.keep_last = 100}), Steps{});
}

TEST(PlanPrune, NeverRemovesTheLastTwo) {
  EXPECT_EQ(going(ten(), {.keep_last = 1}).size(), 8U);
  EXPECT_EQ(going({folder(1), folder(2)}, {.keep_last = 1}), Steps{});
}

TEST(PlanPrune, KeepsEveryNthAndChosenOnes) {
  EXPECT_EQ(going(ten(), {.keep_last = 2, .keep_every = 300}), (Steps{100, 200, 400, 500, 700, 800}));
  EXPECT_EQ(going(ten(), {.keep_last = 2, .keep_steps = {500, 12345}}),
            (Steps{100, 200, 300, 400, 600, 700, 800}));
}

TEST(PlanPrune, KeepsWhatIsRead) {
  auto steps = ten();
  steps[1].reader = "process 1 on somewhere";
  steps[2] = folder(300, StepState::kDamaged, "process 1 on somewhere");
  steps[3] = folder(400, StepState::kUncommitted, "process 1 on somewhere");
  EXPECT_EQ(going(steps, {.keep_last = 5}), (Steps{100, 500}));
}

TEST(PlanPrune, DoesNotCountDamagedOnes) {
  auto steps = ten();
  steps[9].state = StepState::kDamaged;
  steps[8].state = StepState::kDamaged;
  steps[1].state = StepState::kDamaged;
  EXPECT_EQ(going(steps, {.keep_last = 2}), (Steps{100, 200, 300, 400, 500, 600}));
  EXPECT_EQ(going(steps, {.keep_last = 0}), Steps{});
}

TEST(PlanPrune, RemovesAttemptsUpToTheNewestCommit) {
  EXPECT_EQ(going({folder(1, StepState::kUncommitted), folder(2), folder(2, StepState::kUncommitted),
                   folder(3, StepState::kUncommitted)},
                  {.keep_last = 0}),
            (Steps{1, 2}));
}

TEST(PlanPrune, RemovesNothingWithoutAWholeCommit) {
  EXPECT_EQ(going({folder(1, StepState::kDamaged), folder(2, StepState::kDamaged),
                   folder(2, StepState::kUncommitted)},
                  {.keep_last = 1}),
            Steps{});
}

std::vector<Path> save_steps(const Path& checkpoints, int count) {
  std::vector<Path> folders;
  for (int step = 1; step <= count; ++step)
    folders.push_back(
        save(checkpoints,
             {.step = step, .save_id = "0000000a", .ranks = 1, .tensors = {{"model/w", DType::kF32, {9}}}}));
  return folders;
}

std::vector<std::int64_t> whole_steps(const Path& checkpoints) {
  std::vector<std::int64_t> steps;
  for (const StepFolder& step : step_folders(checkpoints)) {
    if (step.state == StepState::kWhole && verify(step.folder, VerifyDepth::kDeep, {}).damages.empty())
      steps.push_back(step.step);
  }
  return steps;
}

/// Works until `operations` calls changed something, then nothing changes any more: as if the machine
/// stopped.
class StoppingDisk : public fs::Disk {
 public:
  explicit StoppingDisk(int operations) : left_(operations) {}
  int rename(const char* from, const char* to) override { return goes_on() ? Disk::rename(from, to) : -1; }
  int unlink(const char* path) override { return goes_on() ? Disk::unlink(path) : -1; }
  int rmdir(const char* path) override { return goes_on() ? Disk::rmdir(path) : -1; }
  [[nodiscard]] bool stopped() const { return left_ < 0; }

 private:
  bool goes_on() {
    errno = EIO;
    return --left_ >= 0;
  }
  int left_;
};

TEST(Prune, MayStopAnywhereAndLeavesWholeCommitsAndRubbish) {
  const TempDir original;
  save_steps(original.path(), 4);
  bool stopped = true;
  for (int operations = 0; stopped; ++operations) {
    ASSERT_LT(operations, 100);
    const TempDir dir;
    std::filesystem::copy(original.path(), dir.path(), std::filesystem::copy_options::recursive);
    {
      StoppingDisk disk(operations);
      const fs::DiskInUse in_use(disk);
      prune(dir.path(), {.keep_last = 2});
      stopped = disk.stopped();
    }
    const Steps left = whole_steps(dir.path());
    ASSERT_GE(left.size(), 2U) << operations;
    EXPECT_EQ(Steps(left.end() - 2, left.end()), (Steps{3, 4})) << operations;
    for (const StepFolder& step : step_folders(dir.path()))
      EXPECT_EQ(step.state, StepState::kWhole) << operations;
    prune(dir.path(), {.keep_last = 2});
    EXPECT_EQ(whole_steps(dir.path()), (Steps{3, 4}));
    EXPECT_EQ(fs::list_folder(dir.path(), Code::kCheckpoint).size(), 2U);
  }
}

TEST(Prune, LeavesWhatALeaseHolds) {
  const TempDir dir;
  const auto folders = save_steps(dir.path(), 4);
  {
    const ReadLease lease(folders[0]);
    EXPECT_EQ(lease.note(), "");
    ASSERT_EQ(leases_in(dir.path()).size(), 1U);
    EXPECT_FALSE(leases_in(dir.path())[0].stale);
    EXPECT_EQ(leases_in(dir.path())[0].step_folder, folders[0].filename());
    EXPECT_NE(leases_in(dir.path())[0].holder.find(str("process ", ::getpid())), std::string::npos);
    prune(dir.path(), {.keep_last = 2});
    EXPECT_EQ(whole_steps(dir.path()), (Steps{1, 3, 4}));
  }
  EXPECT_TRUE(leases_in(dir.path()).empty());
  prune(dir.path(), {.keep_last = 2});
  EXPECT_EQ(whole_steps(dir.path()), (Steps{3, 4}));
}

/// Somebody begins to read just when the folder is put aside.
class LateReader : public fs::Disk {
 public:
  explicit LateReader(Path victim) : victim_(std::move(victim)) {}
  int rename(const char* from, const char* to) override {
    if (victim_ == from && !lease_) lease_ = std::make_unique<ReadLease>(victim_);
    return Disk::rename(from, to);
  }

 private:
  Path victim_;
  std::unique_ptr<ReadLease> lease_;
};

TEST(Prune, BringsBackWhatWasLeasedMeanwhile) {
  const TempDir dir;
  const auto folders = save_steps(dir.path(), 4);
  {
    LateReader disk(folders[1]);
    const fs::DiskInUse in_use(disk);
    const auto plan = plan_prune(step_folders(dir.path()), {.keep_last = 2});
    EXPECT_EQ(carry_out(plan), (std::vector<Path>{folders[0]}));
  }
  EXPECT_EQ(whole_steps(dir.path()), (Steps{2, 3, 4}));
}

/// Somebody begins to read just when the folder is put aside, and the machine dies before that is noticed.
class DyingDisk : public fs::Disk {
 public:
  explicit DyingDisk(Path victim) : victim_(std::move(victim)) {}
  int rename(const char* from, const char* to) override {
    if (dead_) return fail();
    if (victim_ != from) return Disk::rename(from, to);
    lease_ = std::make_unique<ReadLease>(victim_);
    dead_ = true;
    return Disk::rename(from, to);
  }
  int unlink(const char* path) override { return dead_ ? fail() : Disk::unlink(path); }
  int rmdir(const char* path) override { return dead_ ? fail() : Disk::rmdir(path); }
  void revive() { dead_ = false; }

 private:
  static int fail() {
    errno = EIO;
    return -1;
  }
  Path victim_;
  bool dead_ = false;
  std::unique_ptr<ReadLease> lease_;
};

TEST(Prune, BringsBackWhatACrashLeftAsideWhileSomebodyReadsIt) {
  const TempDir dir;
  const auto folders = save_steps(dir.path(), 4);
  {
    DyingDisk disk(folders[1]);
    const fs::DiskInUse in_use(disk);
    (void)carry_out(plan_prune(step_folders(dir.path()), {.keep_last = 2}));
    EXPECT_EQ(whole_steps(dir.path()), (Steps{3, 4})) << "it lies aside";
    disk.revive();  // the machine is back; the reader, elsewhere, still reads
    for (const Leftover& leftover : find_leftovers(dir.path()))
      EXPECT_EQ(leftover.path.string().find(folders[1].filename().string()), std::string::npos);
    prune(dir.path(), {.keep_last = 2});
    EXPECT_EQ(whole_steps(dir.path()), (Steps{2, 3, 4}));
  }
  prune(dir.path(), {.keep_last = 2});
  EXPECT_EQ(whole_steps(dir.path()), (Steps{3, 4})) << "the reader is done";
  EXPECT_EQ(fs::list_folder(dir.path(), Code::kCheckpoint).size(), 2U);
}

/// A lease of a process of that number on a machine of this one's name.
Path lease_of(const Path& step_folder, const std::string& text) {
  const ReadLease mine(step_folder);  // for this host as leases spell it
  const auto own = leases_in(step_folder.parent_path());
  EXPECT_EQ(own.size(), 1U);
  std::string name = own.at(0).file.filename().string();
  name.replace(name.find(str('-', ::getpid(), '-')), std::string::npos, "-999999999-0123abcd");
  spill(step_folder.parent_path() / name, text);
  return step_folder.parent_path() / name;
}

TEST(ReadLease, OfAnotherMachineOfThisNameIsStaleAfterAnHour) {
  const TempDir dir;
  const auto folders = save_steps(dir.path(), 3);
  const std::string space = process_space();
  const std::string number = space.substr(space.find(" space "));
  const std::string boot = "boot 01234567-89ab-cdef-0123-456789abcdef";
  // The namespace of the first container has the same number everywhere; earlier versions told nothing else.
  for (const std::string& text :
       {str("process ", boot, number, " start 1\n"), str("process", number, " start 1\n")}) {
    const Path lease = lease_of(folders[0], text);
    ASSERT_EQ(leases_in(dir.path()).size(), 1U);
    EXPECT_FALSE(leases_in(dir.path())[0].stale) << text;
    prune(dir.path(), {.keep_last = 2});
    EXPECT_EQ(whole_steps(dir.path()), (Steps{1, 2, 3})) << text;
    std::filesystem::last_write_time(
        lease, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(61));
    EXPECT_TRUE(leases_in(dir.path())[0].stale) << text;
    std::filesystem::remove(lease);
  }
  (void)lease_of(folders[0], str("process ", space, " start 1\n"));
  EXPECT_TRUE(leases_in(dir.path())[0].stale) << "of this machine, and gone";
}

TEST(ReadLease, OfADeadProcessIsStaleAtOnce) {
  const TempDir dir;
  const auto folders = save_steps(dir.path(), 3);
  const pid_t child = ::fork();
  if (child == 0) {
    const ReadLease lease(folders[0]);
    ::_exit(0);  // no destructor, as after a kill
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(leases_in(dir.path()).size(), 1U);
  EXPECT_TRUE(leases_in(dir.path())[0].stale);
  prune(dir.path(), {.keep_last = 2});
  EXPECT_EQ(whole_steps(dir.path()), (Steps{2, 3}));
}

TEST(ReadLease, OfAnotherHostIsStaleAfterAnHour) {
  const TempDir dir;
  const auto folders = save_steps(dir.path(), 1);
  const Path file =
      dir.path() / (".lease-" + folders[0].filename().string() + "-some-other-node.cluster-17-0123abcd");
  spill(file, "process space 1 start 1\n");
  ASSERT_EQ(leases_in(dir.path()).size(), 1U);
  EXPECT_EQ(leases_in(dir.path())[0].holder, "process 17 on some-other-node.cluster");
  EXPECT_FALSE(leases_in(dir.path())[0].stale);
  std::filesystem::last_write_time(file,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::minutes(61));
  EXPECT_TRUE(leases_in(dir.path())[0].stale);
}

TEST(ReadLease, IgnoresForeignNames) {
  const TempDir dir;
  for (const char* name : {".lease-", ".lease-x", ".lease-step-000000001.0000000a-h-1-xyz",
                           ".lease-step-000000001.0000000a-1-0123abcd", ".lease-step-1.0000000a-h-1-0123abcd",
                           ".lease-step-000000001.0000000a-h-0-0123abcd",
                           ".lease-step-000000001.0000000a-h-99999999999-0123abcd"})
    spill(dir.path() / name, "");
  EXPECT_TRUE(leases_in(dir.path()).empty());
  EXPECT_TRUE(leases_in(dir.path() / "absent").empty());
}

/// The folder belongs to somebody who lets others only read.
class ReadOnlyDisk : public fs::Disk {
 public:
  int open(const char* path, int flags, unsigned mode) override {
    if ((flags & (O_WRONLY | O_RDWR)) == 0) return Disk::open(path, flags, mode);
    errno = EROFS;
    return -1;
  }
};

TEST(ReadLease, IsDoneWithoutWhereNothingCanBeWritten) {
  const TempDir dir;
  const auto folders = save_steps(dir.path(), 1);
  ReadOnlyDisk disk;
  const fs::DiskInUse in_use(disk);
  const ReadLease lease(folders[0]);
  EXPECT_NE(lease.note().find("Read-only file system"), std::string::npos) << lease.note();
  EXPECT_NE(ReadLease(dir.path()).note(), "");
  EXPECT_TRUE(leases_in(dir.path()).empty());
}

TEST(LeasedReader, SaysThatItReadsWithoutALease) {
  const TempDir dir;
  const auto folders = save_steps(dir.path(), 1);
  ReadOnlyDisk disk;
  const fs::DiskInUse in_use(disk);
  ::testing::internal::CaptureStderr();
  { const LeasedReader leased(folders[0]); }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("Read-only file system"), std::string::npos) << said;
  ::testing::internal::CaptureStderr();
  { const LeasedReader leased(folders[0], /*tells=*/false); }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(StepFolders, ThatAreLinksAreNamedAndPassedOver) {
  const TempDir dir;
  const auto folders = save_steps(dir.path() / "checkpoints", 2);
  const Path elsewhere = dir.path() / "elsewhere";
  std::filesystem::rename(folders[1], elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, folders[1]);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(newest_commit(dir.path()), folders[0]);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(folders[1].string()), std::string::npos) << said;
  EXPECT_NE(said.find("symbolic link"), std::string::npos) << said;
}

TEST(Leftovers, AreWhatNobodyNeeds) {
  const TempDir dir;
  save_steps(dir.path(), 3);
  for (const char* name :
       {".trash-step-000000001.00000000", "step-000000002.000000ff", "step-000000009.000000ff",
        "llama-hf.partial-0123abcd", "new.partial-0123abcd", "notes.partial-x", "mine"})
    std::filesystem::create_directory(dir.path() / name);
  spill(dir.path() / "llama-hf.partial-0123abcd" / "model.safetensors", "half");
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(25);
  std::filesystem::last_write_time(dir.path() / "new.partial-0123abcd", old);
  spill(dir.path() / "new.partial-0123abcd" / "x", "");  // somebody is at work in it
  for (const Path& path :
       {dir.path() / "llama-hf.partial-0123abcd" / "model.safetensors",
        dir.path() / "llama-hf.partial-0123abcd", dir.path() / "mine", dir.path() / "notes.partial-x"})
    std::filesystem::last_write_time(path, old);
  const Path lease = dir.path() / ".lease-step-000000001.0000000a-node-1-0123abcd";
  spill(lease, "");
  std::filesystem::last_write_time(lease, old);
  std::vector<std::string> names;
  const auto leftovers = find_leftovers(dir.path());
  for (const Leftover& leftover : leftovers) names.push_back(leftover.path.filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{".lease-step-000000001.0000000a-node-1-0123abcd",
                                             ".trash-step-000000001.00000000", "llama-hf.partial-0123abcd",
                                             "step-000000002.000000ff"}));
  EXPECT_EQ(remove_leftovers(leftovers), 4U);
  EXPECT_TRUE(find_leftovers(dir.path()).empty());
  EXPECT_EQ(whole_steps(dir.path()), (Steps{1, 2, 3}));
}

}  // namespace
}  // namespace echelon::checkpoint
