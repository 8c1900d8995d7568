// Once COMMIT has its name nothing that fails makes the checkpoint vanish, and no failure in front of it
// harms an older one: saves as the trainer makes them, with threads, commit and removal of old ones, on a
// disk and in a memory that fail at every place.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <set>

#include "checkpoint/folder/files.h"
#include "checkpoint/write/rank_save.h"
#include "checkpoint/write/shard_plan.h"
#include "support/long_form.h"
#include "support/matches.h"
#include "support/memory_disk.h"
#include "unit/checkpoint/tiny_run.h"
#include "unit/checkpoint/write/failing_allocations.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

constexpr std::int64_t kKeepLast = 2;

/// Passes calls on and remembers which steps were committed. From the first rename to COMMIT on a call that
/// `fails` picks by its number fails with EIO; where `happens`, after it has taken effect, as on a network.
/// What it allocates is spared: a real disk allocates nothing in this process.
class CommitWatch : public fs::Disk {
 public:
  std::function<bool(int)> fails;
  bool happens = false;

  explicit CommitWatch(fs::Disk& below) : below_(below) {}
  [[nodiscard]] const std::set<std::string>& committed() const { return committed_; }
  [[nodiscard]] int calls() const { return calls_; }

  int open(const char* path, int flags, unsigned mode) override {
    return pass(false, &Disk::open, path, flags, mode);
  }
  int close(int fd) override { return pass(true, &Disk::close, fd); }
  ssize_t pread(int fd, void* to, std::size_t size, off_t offset) override {
    return pass(false, &Disk::pread, fd, to, size, offset);
  }
  ssize_t pwrite(int fd, const void* from, std::size_t size, off_t offset) override {
    return pass(happens, &Disk::pwrite, fd, from, size, offset);
  }
  int fsync(int fd) override { return pass(happens, &Disk::fsync, fd); }
  int fallocate(int fd, off_t size) override { return pass(happens, &Disk::fallocate, fd, size); }
  int ftruncate(int fd, off_t size) override { return pass(happens, &Disk::ftruncate, fd, size); }
  int rename(const char* from, const char* to) override {
    const SparedAllocations own;
    const Path path(to);
    const bool commits = path.filename() == "COMMIT";
    counting_ = counting_ || commits;
    return pass(happens, [&](Disk& below) {
      const int result = below.rename(from, to);
      if (commits && result == 0) committed_.insert(path.parent_path().filename());
      return result;
    });
  }
  int unlink(const char* path) override { return pass(happens, &Disk::unlink, path); }
  int mkdir(const char* path, unsigned mode) override { return pass(happens, &Disk::mkdir, path, mode); }
  int rmdir(const char* path) override { return pass(happens, &Disk::rmdir, path); }
  int fstat(int fd, struct stat* info) override { return pass(false, &Disk::fstat, fd, info); }
  int lstat(const char* path, struct stat* info) override { return pass(false, &Disk::lstat, path, info); }
  int list(const char* path, std::vector<std::string>& names) override {
    return pass(false, &Disk::list, path, names);
  }

 private:
  template <class Call, class... Arguments>
  std::invoke_result_t<Call, Disk&, Arguments&...> pass(bool takes_effect, const Call& call,
                                                        Arguments&... arguments) {
    const SparedAllocations own;
    if (!counting_ || !fails || !fails(++calls_)) return std::invoke(call, below_, arguments...);
    if (takes_effect) (void)std::invoke(call, below_, arguments...);
    errno = EIO;
    return -1;
  }

  fs::Disk& below_;
  bool counting_ = false;
  std::set<std::string> committed_;
  int calls_ = 0;
};

/// A run whose steps 1 and 2 are committed.
DiskTree two_commits() {
  InUse<MemoryDisk> disk(DiskTree("/"));
  const TinyRun run;
  run.save(1);
  run.save(2);
  return disk.tree();
}

/// One rank's part of a save, with what the trainer does after a commit. Throws where it cannot begin.
RankSave::Status save_rank(const TinyRun& run, std::int64_t step, int rank) {
  static const auto staging = std::make_shared<Staging>(0);
  std::map<std::string, std::vector<std::byte>> contents;
  std::vector<Slice> slices;
  SavePlan plan{.folder = run.folder(step), .timeout_s = 5};
  {
    const SparedAllocations own;
    const Example example = run.example(step);
    for (const TensorInfo& tensor : example.tensors) contents[tensor.name] = TinyRun::content(tensor, step);
    slices = slices_of(example, rank, contents);
    plan.commit = commit_info(example);
    plan.on_commit = [run] { run.prune(kKeepLast); };
  }
  RankSave save(std::move(plan), plan_shard(rank, run.ranks, TinyRun::save_id(step), slices), slices,
                staging);
  save.stage();
  const SparedAllocations own;
  return save.wait(60);
}

/// Saves a step as two ranks do it, rank 0 last.
RankSave::Status save_step(const TinyRun& run, std::int64_t step) {
  RankSave::Status status;
  for (const int rank : {1, 0}) {
    try {
      status = save_rank(run, step, rank);
    } catch (...) {
      const SparedAllocations own;
      status = {.state = RankSave::State::kFailed, .error = "could not begin"};
    }
    if (status.state == RankSave::State::kDone) continue;
    const SparedAllocations own;
    discard_attempt(run.folder(step));
    break;
  }
  return status;
}

/// What was lost of a run of which these steps were committed, or "": the newest ones, which are kept, must
/// be whole.
std::string lost(const TinyRun& run, std::set<std::int64_t> committed) {
  while (committed.size() > kKeepLast) committed.erase(committed.begin());
  for (const std::int64_t step : committed) {
    if (std::string wrong = run.wrong_in(run.folder(step)); !wrong.empty()) return wrong;
  }
  return "";
}

struct Trial {
  std::function<bool(int)> fails;
  bool happens = false;
  std::string what;
};

/// Steps 3, 4 and 5 saved on a disk that fails so. Returns how many calls there were from the commit of step
/// 3 to its end.
int expect_nothing_lost(const DiskTree& before, const Trial& trial) {
  MemoryDisk disk(before);
  CommitWatch watch(disk);
  watch.fails = trial.fails;
  watch.happens = trial.happens;
  const TinyRun run;
  std::set<std::int64_t> committed{1, 2};
  int calls = 0;
  testing::internal::CaptureStderr();
  for (std::int64_t step = 3; step <= 5; ++step) {
    const std::string what = str(trial.what, trial.happens ? ", having happened" : "", "; step ", step);
    RankSave::Status status;
    std::vector<std::string> present;
    (void)disk.list(run.checkpoints().c_str(), present);
    {
      const fs::DiskInUse in_use(watch);
      status = save_step(run, step);
    }
    if (step == 3) calls = watch.calls();
    const fs::DiskInUse in_use(disk);
    const bool there = watch.committed().contains(run.folder(step).filename());
    if (there) committed.insert(step);
    EXPECT_EQ(lost(run, committed), "") << what << ": " << status.error;
    EXPECT_TRUE(there || status.state == RankSave::State::kFailed) << what;
    if (status.doubt.empty()) continue;
    EXPECT_EQ(status.state, RankSave::State::kDone) << what;
    for (const std::string& name : present)
      EXPECT_TRUE(entry_exists(run.checkpoints() / name)) << what << ": removed " << name;
  }
  (void)testing::internal::GetCapturedStderr();
  return calls;
}

TEST(CommitStays, WhateverCallOfTheDiskFailsBehindIt) {
  const DiskTree before = two_commits();
  const int calls = expect_nothing_lost(before, {[](int) { return false; }, false, "nothing"});
  EXPECT_GT(calls, 100);
  for (const bool happens : {false, true}) {
    for (int n = 1; n <= calls; ++n) {
      (void)expect_nothing_lost(before, {[n](int call) { return call == n; }, happens, str("call ", n)});
      (void)expect_nothing_lost(before, {[n](int call) { return call >= n; }, happens, str("all from ", n)});
    }
  }
}

TEST(CommitStays, WhateverSequenceOfCallsFailsBehindIt) {
  const DiskTree before = two_commits();
  for (const unsigned one_in : {2U, 5U, 20U, 100U}) {
    for (unsigned seed = 0; seed < 40; ++seed) {
      std::mt19937 random(seed);
      (void)expect_nothing_lost(before, {[&](int) { return random() % one_in == 0; }, seed % 2 == 1,
                                         str("one call in ", one_in, ", seed ", seed)});
    }
  }
}

/// Rank 1's part of step 3 while no memory is left from the nth allocation on. False when it needs fewer.
bool tells_without_memory(const DiskTree& before, std::int64_t nth) {
  const TinyRun run;
  MemoryDisk disk(before);
  InUse<CommitWatch> watch(disk);
  RankSave::Status status;
  bool struck = false;
  {
    const FailingAllocations failing(nth, std::int64_t{1} << 40);
    try {
      status = save_rank(run, 3, 1);
    } catch (const std::exception&) {  // could not begin
    }
    struck = failing.struck();
  }
  // What the note needs is had before the folder is made.
  if (!entry_exists(run.folder(3))) return struck;
  EXPECT_EQ(status.state != RankSave::State::kDone, entry_exists(run.folder(3) / failure_file_name(1)))
      << nth << ": " << status.error;
  return struck;
}

// Rank 0 would wait for it until timeout_s.
TEST(CommitStays, ARankWithoutMemoryTellsSoAtOnce) {
  const DiskTree before = two_commits();
  ASSERT_FALSE(tells_without_memory(before, std::int64_t{1} << 40));
  std::int64_t nth = 1;
  while (tells_without_memory(before, nth)) ++nth;
  EXPECT_GT(nth, 50);
}

/// Step 3 saved while the nth allocation fails, and so many after it. False when there is none.
bool survives_without_memory(const DiskTree& before, std::int64_t nth, std::int64_t times) {
  const TinyRun run;
  MemoryDisk disk(before);
  CommitWatch watch(disk);
  RankSave::Status status;
  bool struck = false;
  testing::internal::CaptureStderr();
  {
    const fs::DiskInUse in_use(watch);
    const FailingAllocations failing(nth, times);
    status = save_step(run, 3);
    struck = failing.struck();
  }
  (void)testing::internal::GetCapturedStderr();
  const fs::DiskInUse in_use(disk);
  const bool there = !watch.committed().empty();
  EXPECT_EQ(there, status.state == RankSave::State::kDone) << nth << ": " << status.error;
  EXPECT_FALSE(test::mentions(status.error, "did not appear within")) << nth << ": " << status.error;
  EXPECT_EQ(lost(run, there ? std::set<std::int64_t>{1, 2, 3} : std::set<std::int64_t>{1, 2}), "")
      << nth << ": " << status.error << status.doubt;
  return struck;
}

TEST(CommitStays, WhateverAllocationFails) {
  const DiskTree before = two_commits();
  ASSERT_FALSE(survives_without_memory(before, std::int64_t{1} << 40, 1));
  std::int64_t nth = 1;
  while (survives_without_memory(before, nth, 1)) nth += echelon::test::long_form() ? 1 : 3;
  EXPECT_GT(nth, 1000);
}

TEST(CommitStays, WhereverMemoryEndsForGood) {
  const DiskTree before = two_commits();
  ASSERT_FALSE(survives_without_memory(before, std::int64_t{1} << 40, 1));
  std::int64_t nth = 1;
  while (survives_without_memory(before, nth, std::int64_t{1} << 40))
    nth += echelon::test::long_form() ? 3 : 8;
  EXPECT_GT(nth, 1000);
}

// What is written when memory ends, a message or a file's name, is whole or not at all.
TEST(CommitStays, NoTextIsCutShortWithoutMemory) {
  const std::string part(200, 'a');
  bool struck = true;
  for (std::int64_t nth = 1; struck; ++nth) {
    std::string text;
    {
      const FailingAllocations failing(nth);
      try {
        text = str(part, 12, part, human_bytes(1 << 20), part);
      } catch (const std::bad_alloc&) {
      }
      struck = failing.struck();
    }
    EXPECT_TRUE(text.empty() || text == part + "12" + part + "1.0 MiB" + part) << nth << ": " << text;
    EXPECT_EQ(struck, text.empty()) << nth;
  }
}

}  // namespace
}  // namespace echelon::checkpoint
