// Which checkpoints stay, how the others go, and who is in the way.
#include "checkpoint/folder/retention.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>

#include "base/files/disk.h"
#include "base/files/fs.h"
#include "base/process/process.h"
#include "base/str.h"
#include "checkpoint/folder/lease.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/names.h"
#include "checkpoint/read/leased_reader.h"
#include "checkpoint/read/verify.h"
#include "support/matches.h"
#include "support/temp_dir.h"
#include "support/watched_disk.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

std::string name_of_step(std::int64_t step) {
  return step_folder_name(step, "0000000a");
}
StepFolder folder(std::int64_t step, StepState state = StepState::kWhole, std::string reader = "") {
  return {name_of_step(step), step, state, std::move(reader), state == StepState::kWhole};
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
  steps[1].held = "read by process 1 on somewhere";
  steps[2] = folder(300, StepState::kDamaged, "read by process 1 on somewhere");
  steps[3] = folder(400, StepState::kUncommitted, "read by process 1 on somewhere");
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

TEST(PlanPrune, NothingGoesBeforeEnoughAreProven) {
  auto steps = ten();
  for (StepFolder& step : steps) step.proven = false;
  EXPECT_EQ(going(steps, {.keep_last = 2}), Steps{});
  steps[3].proven = true;
  steps[8].proven = true;
  EXPECT_EQ(going(steps, {.keep_last = 2}), (Steps{100, 200, 300}));
  EXPECT_EQ(going(steps, {.keep_last = 3}), Steps{});
}

/// What one commit can be like when a start begins.
struct Past {
  bool readable = true;     ///< its bytes are what was saved
  bool looks_whole = true;  ///< the files have their sizes
};

/// A start reads the commits newest first, resumes from the first readable one, and then saves: each of the
/// new commits is followed by a removal. Returns the names that are left after `saves` of them.
std::vector<std::string> left_after(const std::vector<Past>& past, std::size_t saves, std::int64_t keep_last,
                                    std::size_t every) {
  std::vector<StepFolder> steps;
  for (std::size_t i = 0; i < past.size(); ++i)
    steps.push_back({str("old-", i), static_cast<std::int64_t>(10 * i),
                     past[i].looks_whole ? StepState::kWhole : StepState::kDamaged});
  std::size_t from = past.size();
  while (from-- > 0 && !past[from].readable) steps[from].state = StepState::kDamaged;
  if (from >= past.size()) return {};  // nothing to resume from: a start ends here
  steps[from].proven = true;
  for (std::size_t save = 1; save <= saves; ++save) {
    const auto step = static_cast<std::int64_t>(10 * from + every * save);
    steps.push_back({str("new-", save), step, StepState::kWhole, "", true});
    std::stable_sort(steps.begin(), steps.end(), [](const StepFolder& a, const StepFolder& b) {
      return std::pair(a.step, a.proven) < std::pair(b.step, b.proven);
    });
    std::vector<StepFolder> left;
    for (const PruneDecision& decision : plan_prune(steps, {.keep_last = keep_last, .keep_every = 20})) {
      if (!decision.goes) left.push_back(decision.step);
    }
    steps = left;
  }
  return mapped<std::string>(steps, &StepFolder::folder);
}

TEST(PlanPrune, NeverLeavesFewerReadableCommitsThanAreToBeKept) {
  // Every set of up to five commits, each sound, silently damaged, or visibly damaged.
  std::size_t cases = 0;
  for (std::size_t count = 1; count <= 5; ++count) {
    for (std::size_t number = 0; number < static_cast<std::size_t>(std::pow(3, count)); ++number) {
      std::vector<Past> past;
      std::size_t sound = 0;
      for (std::size_t i = 0, rest = number; i < count; ++i, rest /= 3) {
        past.push_back({.readable = rest % 3 == 0, .looks_whole = rest % 3 != 2});
        if (past.back().readable) ++sound;
      }
      for (const std::int64_t keep_last : {1, 2, 3, 4}) {
        for (const std::size_t every : {2, 5, 10, 40}) {
          for (std::size_t saves = 1; saves <= 5 && sound > 0; ++saves, ++cases) {
            std::size_t readable = 0;
            for (const std::string& name : left_after(past, saves, keep_last, every)) {
              const bool old = name.starts_with("old-");
              if (!old || past[static_cast<std::size_t>(std::stoi(name.substr(4)))].readable) ++readable;
            }
            const auto wanted = static_cast<std::size_t>(commits_to_keep(keep_last));
            ASSERT_GE(readable, std::min(wanted, sound + saves))
                << count << " commits, case " << number << ", keep_last " << keep_last << ", a save every "
                << every << " steps, " << saves << " saves";
          }
        }
      }
    }
  }
  EXPECT_GT(cases, 20000U);
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

/// What a removal leaves that keeps two commits.
std::vector<std::int64_t> left_by_prune(const Path& checkpoints) {
  prune(checkpoints, {.keep_last = 2}, all_in(checkpoints));
  return whole_steps(checkpoints);
}

bool changes_names(DiskCall call) {
  return call == DiskCall::kRename || call == DiskCall::kUnlink || call == DiskCall::kRmdir;
}

using Prune = InTempDir;

TEST_F(Prune, MayStopAnywhereAndLeavesWholeCommitsAndRubbish) {
  const TempDir original;
  save_steps(original.path(), 4);
  bool stopped = true;
  for (int operations = 0; stopped; ++operations) {
    ASSERT_LT(operations, 100);
    const TempDir fresh;
    std::filesystem::copy(original.path(), fresh.path(), std::filesystem::copy_options::recursive);
    {
      // After so many changes nothing changes any more: as if the machine stopped.
      int left = operations;
      InUse<WatchedDisk> disk([&](const DiskRequest& request, const auto& make) {
        return changes_names(request.call) && --left < 0 ? failed(EIO) : make();
      });
      prune(fresh.path(), {.keep_last = 2}, all_in(fresh.path()));
      stopped = left < 0;
    }
    const Steps left = whole_steps(fresh.path());
    ASSERT_GE(left.size(), 2U) << operations;
    EXPECT_EQ(Steps(left.end() - 2, left.end()), (Steps{3, 4})) << operations;
    for (const StepFolder& step : step_folders(fresh.path()))
      EXPECT_EQ(step.state, StepState::kWhole) << operations;
    EXPECT_EQ(left_by_prune(fresh.path()), (Steps{3, 4}));
    EXPECT_EQ(fs::list_folder(fresh.path(), Code::kCheckpoint).size(), 2U);
  }
}

TEST_F(Prune, LeavesWhatALeaseHolds) {
  const auto folders = save_steps(dir.path(), 4);
  {
    const FolderLease lease(folders[0]);
    EXPECT_EQ(lease.note(), "");
    ASSERT_EQ(leases_in(dir.path()).size(), 1U);
    EXPECT_FALSE(leases_in(dir.path())[0].stale);
    EXPECT_EQ(leases_in(dir.path())[0].step_folder, folders[0].filename());
    EXPECT_MENTIONS(leases_in(dir.path())[0].holder, str("process ", ::getpid()));
    EXPECT_EQ(left_by_prune(dir.path()), (Steps{1, 3, 4}));
  }
  EXPECT_TRUE(leases_in(dir.path()).empty());
  EXPECT_EQ(left_by_prune(dir.path()), (Steps{3, 4}));
}

TEST_F(Prune, LeavesWhatIsReadThroughALink) {
  const TempDir elsewhere;
  const auto folders = save_steps(dir.path(), 3);
  std::filesystem::create_directory_symlink(folders[0], elsewhere.path() / "chosen");
  for (const Path& link : {elsewhere.path() / "chosen", elsewhere.path() / "chosen" / ""}) {
    const LeasedReader reader(link);
    EXPECT_EQ(reader.lease.note(), "");
    EXPECT_EQ(left_by_prune(dir.path()), (Steps{1, 2, 3}));
  }
}

TEST_F(Prune, CountsOnlyWhatWasWrittenHereOrRead) {
  const auto folders = save_steps(dir.path(), 5);
  KnownSteps known{.readable = {folders[2].filename()}, .damaged = {folders[4].filename()}};
  prune(dir.path(), {.keep_last = 2}, known);
  EXPECT_EQ(list(dir.path()).size(), 5U) << "one is known to be readable, two are asked for";
  known.readable.insert(folders[3].filename());
  prune(dir.path(), {.keep_last = 2}, known);
  EXPECT_EQ(whole_steps(dir.path()), (Steps{3, 4, 5}));
}

TEST_F(Prune, CountsWhatAnEarlierStartHasRead) {
  const std::vector<TensorInfo> tensors = {{"model/w", DType::kF32, {9}}};
  for (int step = 1; step <= 4; ++step) {
    const Example example{.step = step, .save_id = str("0000000", step), .ranks = 1, .tensors = tensors};
    const Path folder = write_shards(dir.path(), example);
    CommitInfo info = commit_info(example);
    if (step > 1) info.resumed_from = str("0000000", step - 1);
    EXPECT_EQ(commit(folder, info), "");
  }
  // As in a run that is stopped after each save: 4 was written now, 3 read by this start, 2 by the one
  // before.
  prune(dir.path(), {.keep_last = 3}, {.readable = {step_folder_name(4, "00000004")}});
  EXPECT_EQ(whole_steps(dir.path()), (Steps{2, 3, 4}));
}

TEST_F(Prune, OfTwoCommitsOfOneStepTheOneThatIsKnownCounts) {
  for (const char* known_id : {"0000000a", "0000000f"}) {
    const TempDir fresh;
    const std::vector<TensorInfo> tensors = {{"model/w", DType::kF32, {9}}};
    for (const int step : {1, 2, 2, 3}) {
      const char* id = list(fresh.path()).size() == 2 ? "0000000f" : "0000000a";
      save(fresh.path(), {.step = step, .save_id = id, .ranks = 1, .tensors = tensors});
    }
    prune(fresh.path(), {.keep_last = 2},
          {.readable = {step_folder_name(2, known_id), step_folder_name(3, "0000000a")}});
    ASSERT_EQ(list(fresh.path()).size(), 2U);
    EXPECT_EQ(list(fresh.path())[0].folder.filename(), step_folder_name(2, known_id));
  }
}

TEST_F(Prune, BringsBackWhatWasCommittedMeanwhile) {
  for (const bool dies : {false, true}) {
    const TempDir fresh;
    const auto folders = save_steps(fresh.path(), 3);
    std::filesystem::rename(folders[1] / "COMMIT", folders[1] / "LATER");
    const auto plan = plan_prune(step_folders(fresh.path()), {.keep_last = 0});
    {
      // The save is committed just when the folder of its attempt is put aside.
      bool dead = false;
      InUse<WatchedDisk> disk([&](const DiskRequest& request, const auto& make) {
        if (dead) return ssize_t{failed(EIO)};
        if (request.call == DiskCall::kRename && request.path == folders[1]) {
          std::filesystem::rename(folders[1] / "LATER", folders[1] / "COMMIT");
          dead = dies;
        }
        return make();
      });
      carry_out(plan);
    }
    if (dies) {
      EXPECT_EQ(whole_steps(fresh.path()), (Steps{1, 3})) << "it lies aside";
      for (const Leftover& leftover : find_leftovers(fresh.path())) ADD_FAILURE() << leftover.path;
      bring_back(fresh.path());
    }
    EXPECT_EQ(whole_steps(fresh.path()), (Steps{1, 2, 3}));
  }
}

TEST_F(Prune, LeavesASaveThatIsUnderWay) {
  const auto folders = save_steps(dir.path(), 3);
  const Path attempt = dir.path() / step_folder_name(2, "000000ff");
  const auto goes = [&] { return !find_leftovers(dir.path()).empty(); };
  {
    const FolderLease writer(attempt, LeaseKind::kWriter);
    std::filesystem::create_directory(attempt);
    EXPECT_EQ(step_folders(dir.path())[2].folder, attempt);
    EXPECT_EQ(step_folders(dir.path())[2].held.substr(0, 22), "being saved by process");
    EXPECT_FALSE(goes());
  }
  EXPECT_TRUE(goes());
}

TEST_F(Prune, OfTheRunItselfKnowsThatNoOtherSaveIsUnderWay) {
  save_steps(dir.path(), 3);
  const Path attempt = dir.path() / step_folder_name(2, "000000ff");
  spill(dir.path() / (".save-" + attempt.filename().string() + "-lost-node-17-0123abcd"), "");
  std::filesystem::create_directory(attempt);
  prune(dir.path(), {.keep_last = 0}, {});
  EXPECT_EQ(fs::list_folder(dir.path(), Code::kCheckpoint).size(), 3U);
}

using Ownership = InTempDir;

TEST_F(Ownership, TheNewestOneOwnsTheFolder) {
  const auto folders = save_steps(dir.path(), 4);
  const Owner first(dir.path());
  EXPECT_NO_THROW(first.require());
  const Owner second(dir.path());
  EXPECT_NO_THROW(second.require());
  const std::string why = error_of([&] { first.require(); });
  EXPECT_MENTIONS(why, str("new owner, process ", ::getpid(), " on "));
  EXPECT_EQ(error_of([&] { prune(dir.path(), {.keep_last = 2}, all_in(dir.path()), &first); }), why);
  const auto plan = plan_prune(step_folders(dir.path(), all_in(dir.path())), {.keep_last = 2});
  EXPECT_MENTIONS(said_by([&] { carry_out(plan, &first); }), "new owner");
  EXPECT_EQ(whole_steps(dir.path()), (Steps{1, 2, 3, 4}));
  std::filesystem::remove(dir.path() / ".owner");
  EXPECT_NO_THROW(second.require());
  EXPECT_NE(error_of([&] { first.require(); }), "");
  prune(dir.path(), {.keep_last = 2}, all_in(dir.path()), &second);
  EXPECT_EQ(whole_steps(dir.path()), (Steps{3, 4}));
}

TEST_F(Ownership, AnotherOneMeanwhilePreventsTheCommit) {
  const Example example{.step = 1, .save_id = "0000000a"};
  const Path folder = write_shards(dir.path(), example);
  CommitInfo info = commit_info(example);
  const Owner first(dir.path());
  const Owner second(dir.path());
  info.before_commit = [&] { first.require(); };
  EXPECT_MENTIONS(error_of([&] { (void)commit(folder, info); }), "new owner");
  EXPECT_FALSE(std::filesystem::exists(folder / "COMMIT"));
  info.before_commit = [&] { second.require(); };
  EXPECT_EQ(commit(folder, info), "");
}

using Lease = InTempDir;

TEST_F(Lease, OfALivingProcessIsNeverStale) {
  const auto folders = save_steps(dir.path(), 3);
  const FolderLease lease(folders[0]);  // as of a reader that was stopped for hours
  std::filesystem::last_write_time(leases_in(dir.path()).at(0).file,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_FALSE(leases_in(dir.path()).at(0).stale);
  EXPECT_EQ(left_by_prune(dir.path()), (Steps{1, 2, 3}));
}

TEST_F(Prune, BringsBackWhatWasLeasedMeanwhile) {
  const auto folders = save_steps(dir.path(), 4);
  {
    // Somebody begins to read just when the folder is put aside.
    std::unique_ptr<FolderLease> lease;
    InUse<WatchedDisk> disk([&](const DiskRequest& request, const auto& make) {
      if (request.call == DiskCall::kRename && request.path == folders[1] && !lease)
        lease = std::make_unique<FolderLease>(folders[1]);
      return make();
    });
    const auto plan = plan_prune(step_folders(dir.path(), all_in(dir.path())), {.keep_last = 2});
    carry_out(plan);
  }
  EXPECT_EQ(whole_steps(dir.path()), (Steps{2, 3, 4}));
}

TEST_F(Prune, BringsBackWhatACrashLeftAsideWhileSomebodyReadsIt) {
  const auto folders = save_steps(dir.path(), 4);
  {
    // Somebody begins to read just when the folder is put aside, and the machine dies before that is noticed.
    bool dead = false;
    std::unique_ptr<FolderLease> lease;
    InUse<WatchedDisk> disk([&](const DiskRequest& request, const auto& make) {
      if (dead && changes_names(request.call)) return ssize_t{failed(EIO)};
      if (request.call == DiskCall::kRename && request.path == folders[1] && !lease) {
        lease = std::make_unique<FolderLease>(folders[1]);
        dead = true;
      }
      return make();
    });
    carry_out(plan_prune(step_folders(dir.path(), all_in(dir.path())), {.keep_last = 2}));
    EXPECT_EQ(whole_steps(dir.path()), (Steps{3, 4})) << "it lies aside";
    dead = false;  // the machine is back; the reader, elsewhere, still reads
    for (const Leftover& leftover : find_leftovers(dir.path()))
      EXPECT_FALSE(test::mentions(leftover.path.string(), folders[1].filename().string()));
    EXPECT_EQ(left_by_prune(dir.path()), (Steps{2, 3, 4}));
  }
  EXPECT_EQ(left_by_prune(dir.path()), (Steps{3, 4})) << "the reader is done";
  EXPECT_EQ(fs::list_folder(dir.path(), Code::kCheckpoint).size(), 2U);
}

/// A lease of a process of that number on a machine of this one's name.
Path lease_of(const Path& step_folder, const std::string& text) {
  const FolderLease mine(step_folder);  // for this host as leases spell it
  const auto own = leases_in(step_folder.parent_path());
  EXPECT_EQ(own.size(), 1U);
  std::string name = own.at(0).file.filename().string();
  name.replace(name.find(str('-', ::getpid(), '-')), std::string::npos, "-999999999-0123abcd");
  spill(step_folder.parent_path() / name, text);
  return step_folder.parent_path() / name;
}

TEST_F(Lease, OfAnotherMachineOfThisNameIsStaleAfterAnHour) {
  const auto folders = save_steps(dir.path(), 3);
  const std::string space = process_space();
  const std::string number = space.substr(space.find(" space "));
  const std::string boot = "boot 01234567-89ab-cdef-0123-456789abcdef";
  // The namespace of the first container has the same number everywhere.
  const Path lease = lease_of(folders[0], str("process ", boot, number, " start 1\n"));
  ASSERT_EQ(leases_in(dir.path()).size(), 1U);
  EXPECT_FALSE(leases_in(dir.path())[0].stale);
  EXPECT_EQ(left_by_prune(dir.path()), (Steps{1, 2, 3}));
  std::filesystem::last_write_time(lease,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::minutes(61));
  EXPECT_TRUE(leases_in(dir.path())[0].stale);
  std::filesystem::remove(lease);
  (void)lease_of(folders[0], str("process ", space, " start 1\n"));
  EXPECT_TRUE(leases_in(dir.path())[0].stale) << "of this machine, and gone";
}

TEST_F(Lease, OfADeadProcessIsStaleAtOnce) {
  const auto folders = save_steps(dir.path(), 3);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLease lease(folders[0]);
    ::_exit(0);  // no destructor, as after a kill
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(leases_in(dir.path()).size(), 1U);
  EXPECT_TRUE(leases_in(dir.path())[0].stale);
  EXPECT_EQ(left_by_prune(dir.path()), (Steps{2, 3}));
}

TEST_F(Lease, OfAnotherHostIsStaleAfterAnHour) {
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

TEST_F(Lease, IgnoresForeignNames) {
  for (const char* name : {".lease-", ".lease-x", ".lease-step-000000001.0000000a-h-1-xyz",
                           ".lease-step-000000001.0000000a-1-0123abcd", ".lease-step-1.0000000a-h-1-0123abcd",
                           ".lease-step-000000001.0000000a-h-0-0123abcd",
                           ".lease-step-000000001.0000000a-h-99999999999-0123abcd"})
    spill(dir.path() / name, "");
  EXPECT_TRUE(leases_in(dir.path()).empty());
  EXPECT_TRUE(leases_in(dir.path() / "absent").empty());
}

/// The folder belongs to somebody who lets others only read.
ssize_t only_reads(const DiskRequest& request, const std::function<ssize_t()>& make) {
  return (request.flags & (O_WRONLY | O_RDWR)) == 0 ? make() : failed(EROFS);
}

TEST_F(Lease, IsDoneWithoutWhereNothingCanBeWritten) {
  const auto folders = save_steps(dir.path(), 1);
  InUse<WatchedDisk> disk(only_reads);
  const FolderLease lease(folders[0]);
  EXPECT_MENTIONS(lease.note(), "Read-only file system");
  EXPECT_NE(FolderLease(dir.path()).note(), "");
  EXPECT_TRUE(leases_in(dir.path()).empty());
}

TEST(LeasedReader, SaysThatItReadsWithoutALease) {
  const TempDir dir;
  const auto folders = save_steps(dir.path(), 1);
  InUse<WatchedDisk> disk(only_reads);
  EXPECT_MENTIONS(said_by([&] { const LeasedReader leased(folders[0]); }), "Read-only file system");
  EXPECT_EQ(said_by([&] { const LeasedReader leased(folders[0], /*tells=*/false); }), "");
}

TEST(StepFolders, ThatAreLinksAreNamedAndPassedOver) {
  const TempDir dir;
  const auto folders = save_steps(dir.path() / "checkpoints", 2);
  const Path elsewhere = dir.path() / "elsewhere";
  std::filesystem::rename(folders[1], elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, folders[1]);
  EXPECT_MENTIONS(said_by([&] { EXPECT_EQ(newest_commit(dir.path()), folders[0]); }), folders[1].string(),
                  "symbolic link");
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
  remove_leftovers(leftovers);
  EXPECT_TRUE(find_leftovers(dir.path()).empty());
  EXPECT_EQ(whole_steps(dir.path()), (Steps{1, 2, 3}));
}

}  // namespace
}  // namespace echelon::checkpoint
