// What a save, a removal and a load do when a call of the file system fails, is cut short or hangs: at every
// place where it can, and with the words that a person gets to read.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <thread>

#include "base/process/process.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/write/rank_save.h"
#include "support/faulty_disk.h"
#include "support/matches.h"
#include "support/memory_disk.h"
#include "support/refusal.h"
#include "support/soft_limit.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/tiny_run.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

/// A run whose first steps are committed, on a disk in memory; made once.
const DiskTree& commits(std::int64_t count) {
  static std::map<std::int64_t, DiskTree> made;
  if (const auto known = made.find(count); known != made.end()) return known->second;
  InUse<MemoryDisk> disk(DiskTree("/"));
  const TinyRun run;
  for (std::int64_t step = 1; step <= count; ++step) run.save(step);
  return made.emplace(count, disk.tree()).first->second;
}

/// What is wrong with the disk in use after something failed on it, or "": steps 1 and 2 are whole; step 3
/// counts only if it is whole, and must where `saved`; the run can go on, and then nothing is left over.
std::string harm(bool saved) {
  const TinyRun run;
  std::vector<std::int64_t> steps;
  for (const Found& found : list(run.checkpoints())) {
    if (!found.problem.empty()) return found.problem;
    if (!found.committed) continue;
    steps.push_back(found.step);
    if (std::string wrong = run.wrong_in(found.folder); !wrong.empty()) return wrong;
  }
  if (steps.size() < 2 || steps[0] != 1 || steps[1] != 2) return "an older commit is gone";
  if (saved && steps.size() != 3) return "the save did not fail, and its commit is not there";
  run.save(4);
  run.prune(2);
  return run.leaves({steps.back(), 4});
}

/// Step 3 saved on a disk with this fault.
struct Attempt {
  explicit Attempt(const Fault& fault, const TinyRun& run = {}) : disk(commits(2)), faulty(disk, {fault}) {
    const fs::DiskInUse in_use(faulty);
    if (const auto thrown = thrown_by([&] { run.save(3); })) {
      error = thrown->what();
      code = static_cast<int>(thrown->code());
    }
  }
  [[nodiscard]] std::string harm_done() {
    const fs::DiskInUse in_use(disk);
    return harm(error.empty());
  }
  [[nodiscard]] bool committed() {
    const fs::DiskInUse in_use(disk);
    return fs::list_folder(TinyRun().checkpoints(), Code::kCheckpoint).back() == TinyRun().folder(3) &&
           list(TinyRun().checkpoints()).back().committed;
  }
  /// Names that the attempt left in its folder.
  [[nodiscard]] std::vector<std::string> left() {
    std::vector<std::string> names;
    (void)disk.list(TinyRun().folder(3).c_str(), names);
    return names;
  }

  MemoryDisk disk;
  FaultyDisk faulty;
  std::string error;
  int code = 0;
};

struct Kind {
  DiskCall call;
  const char* name;
  std::vector<int> errors;
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {DiskCall::kOpen, "open", {EIO, EMFILE, EACCES}},
      {DiskCall::kCreate, "create", {ENOSPC, EMFILE, EROFS, EDQUOT, EACCES}},
      {DiskCall::kClose, "close", {EIO, EDQUOT}},
      {DiskCall::kRead, "read", {EIO, ESTALE}},
      {DiskCall::kWrite, "write", {ENOSPC, EIO, EDQUOT}},
      {DiskCall::kFlush, "flush", {EIO, ENOSPC}},
      {DiskCall::kReserve, "reserve", {ENOSPC, EDQUOT, EFBIG}},
      {DiskCall::kRename, "rename", {ENOSPC, EIO}},
      {DiskCall::kUnlink, "unlink", {EIO}},
      {DiskCall::kMkdir, "mkdir", {ENOSPC, EROFS}},
      {DiskCall::kRmdir, "rmdir", {EIO}},
      {DiskCall::kStat, "stat", {EIO}},
      {DiskCall::kList, "list", {EIO, EMFILE}},
  };
  return all;
}

/// Calls `body` with one fault after the other: each kind of call, its first, second ... one, failing once or
/// from then on, until a place is behind the last. `body` tells whether its fault struck.
int at_every_place(const std::function<bool(const Fault&, const std::string&)>& body) {
  int places = 0;
  for (const Kind& kind : kinds()) {
    for (const int error : kind.errors) {
      for (const int times : {1, Fault::kForever}) {
        for (int nth = 1;; ++nth, ++places) {
          const Fault fault{.call = kind.call, .nth = nth, .times = times, .error = error};
          const std::string what = str(kind.name, " number ", nth, times == 1 ? "" : " and all after it",
                                       " fails with: ", fs::reason(error));
          if (!body(fault, what)) break;
        }
      }
    }
  }
  return places;
}

TEST(Fault, AtEveryCallOfASaveHarmsNothingThatWasCommittedAndIsTold) {
  const int places = at_every_place([](const Fault& fault, const std::string& what) {
    Attempt attempt(fault);
    if (attempt.faulty.struck() == 0) return false;
    EXPECT_EQ(attempt.harm_done(), "") << what << "\n" << attempt.error;
    EXPECT_FALSE(test::mentions(attempt.error, "\n"));
    if (!attempt.error.empty()) {
      EXPECT_EQ(attempt.code, static_cast<int>(Code::kCheckpoint)) << what;
    }
    EXPECT_TRUE(attempt.faulty.open_files().empty()) << what;
    return true;
  });
  EXPECT_GT(places, 300);
}

TEST(Fault, AtEveryCallOfARemovalHarmsNothingThatIsToStay) {
  int places = 0;
  struct Case {
    RetentionPolicy policy;
    std::int64_t oldest;  ///< what it keeps of steps 1 to 3
  };
  for (const auto& [policy, oldest] :
       {Case{{.keep_last = 2}, 2}, Case{{.keep_last = 3}, 1}, Case{{.keep_last = 2, .keep_every = 1}, 1}}) {
    places += at_every_place([&, keep = policy, from = oldest](const Fault& fault, const std::string& what) {
      MemoryDisk disk(commits(3));
      FaultyDisk faulty(disk, {fault});
      const TinyRun run;
      {
        const fs::DiskInUse in_use(faulty);
        testing::internal::CaptureStderr();
        (void)error_of([&] { prune(run.checkpoints(), keep, run.known()); });
        (void)testing::internal::GetCapturedStderr();
      }
      const fs::DiskInUse in_use(disk);
      for (std::int64_t step = from; step <= 3; ++step) EXPECT_EQ(run.wrong_in(run.folder(step)), "") << what;
      for (const Found& found : list(run.checkpoints())) {
        EXPECT_EQ(found.problem, "") << what;
        EXPECT_EQ(run.wrong_in(found.folder), "") << what;
      }
      run.prune(2);
      EXPECT_EQ(run.leaves({2, 3}), "") << what;
      return faulty.struck() > 0;
    });
  }
  EXPECT_GT(places, 100);
}

/// Every tensor in one read_many(), as the trainer loads.
std::string wrong_in_bulk(const Reader& reader) {
  std::map<std::string, std::vector<std::byte>> bytes;
  std::vector<Reader::Request> requests;
  for (const TensorInfo& tensor : TinyRun::tensors()) {
    const std::uint64_t elements = element_count(tensor);
    auto& to = bytes[tensor.name];
    to.resize(elements * size_of(tensor.dtype));
    requests.push_back({tensor.name, 0, elements, to});
  }
  reader.read_many(requests);
  for (const TensorInfo& tensor : TinyRun::tensors()) {
    if (bytes[tensor.name] != TinyRun::content(tensor, reader.step())) return tensor.name + " differs";
  }
  return "";
}

TEST(Fault, AtEveryCallOfALoadGivesRightBytesOrAnError) {
  int places = 0;
  for (const auto load : {&TinyRun::wrong_content, &wrong_in_bulk}) {
    places += at_every_place([&](const Fault& fault, const std::string& what) {
      MemoryDisk disk(commits(2));
      InUse<FaultyDisk> faulty(disk, {fault});
      testing::internal::CaptureStderr();
      std::int64_t step = 0;
      const std::string error = error_of([&] {
        const Reader reader(TinyRun().root);
        step = reader.step();
        EXPECT_EQ(load(reader), "") << what;
      });
      const std::string warning = testing::internal::GetCapturedStderr();
      EXPECT_TRUE(step != 1 || mentions(warning, "is skipped")) << "falls back in silence: " << what;
      EXPECT_FALSE(test::mentions(error, "\n"));
      EXPECT_TRUE(faulty.open_files().empty()) << what;
      return faulty.struck() > 0;
    });
  }
  EXPECT_GT(places, 200);
}

/// Parts that the error of a save with this fault must have.
struct Told {
  Fault fault;
  std::vector<std::string> parts;
};

TEST(Fault, IsToldWithTheFileAndTheReason) {
  const std::string shard = "shard-00001-of-00002.h5";
  const std::vector<Told> all{
      {{.call = DiskCall::kReserve, .path = shard, .error = ENOSPC},
       {"cannot save rank 1's shard on " + host_name() + ": cannot reserve ", shard,
        "No space left on device"}},
      {{.call = DiskCall::kReserve, .path = shard, .error = EDQUOT},
       {"cannot reserve ", "Disk quota exceeded"}},
      {{.call = DiskCall::kWrite, .path = shard, .error = ENOSPC},
       {"cannot save rank 1's shard on " + host_name() + ": cannot write ", shard,
        "No space left on device"}},
      {{.call = DiskCall::kWrite, .path = shard, .nth = 2, .error = EIO},  // the index is written last
       {"rank 1", "cannot write", shard, "Input/output error"}},
      {{.call = DiskCall::kFlush, .path = shard, .error = EIO},
       {"rank 1", "cannot flush to disk", shard, "Input/output error"}},
      {{.call = DiskCall::kCreate, .path = shard, .error = ENOSPC},  // no inode is left
       {"rank 1", "cannot open for writing", shard, "No space left on device"}},
      {{.call = DiskCall::kCreate, .path = shard, .error = EMFILE}, {"rank 1", shard, "Too many open files"}},
      {{.call = DiskCall::kCreate, .path = shard, .error = EROFS},
       {"rank 1", shard, "Read-only file system"}},
      {{.call = DiskCall::kMkdir, .path = "step-", .error = EROFS},
       {"cannot create folder", "step-000000003", "Read-only file system"}},
      {{.call = DiskCall::kWrite, .path = "recipe.yaml", .error = ENOSPC},
       {"cannot commit checkpoint", "cannot write", "recipe.yaml", "No space left on device"}},
      {{.call = DiskCall::kWrite, .path = "MANIFEST.json", .error = ENOSPC},
       {"cannot commit checkpoint", "cannot write", "MANIFEST.json", "No space left on device"}},
      {{.call = DiskCall::kFlush, .path = "MANIFEST.json", .error = EIO},
       {"cannot commit checkpoint", "cannot flush to disk", "MANIFEST.json", "Input/output error"}},
      {{.call = DiskCall::kRename, .path = "MANIFEST.json", .error = ENOSPC},
       {"cannot commit checkpoint", "rename into place", "MANIFEST.json", "No space left on device"}},
      {{.call = DiskCall::kWrite, .path = "COMMIT", .error = EDQUOT},
       {"cannot commit checkpoint", "cannot write", "COMMIT", "Disk quota exceeded"}},
      {{.call = DiskCall::kRename, .path = "COMMIT", .error = EIO},
       {"cannot commit checkpoint", "rename into place", "COMMIT", "Input/output error"}},
      {{.call = DiskCall::kRead, .path = shard, .error = EIO},  // read back before the commit
       {"cannot commit checkpoint", "cannot read", shard, "Input/output error"}},
  };
  for (const Told& told : all) {
    Attempt attempt(told.fault, {.whole_call = true});
    EXPECT_EQ(attempt.faulty.struck(), 1) << told.parts.front();
    for (const std::string& part : told.parts) EXPECT_MENTIONS(attempt.error, part);
    EXPECT_FALSE(attempt.committed()) << attempt.error;
    EXPECT_EQ(attempt.harm_done(), "") << attempt.error;
  }
}

TEST(Fault, AFlushThatFailsIsNeverTriedAgain) {
  for (const char* file :
       {"shard-00000-of-00002.h5", "shard-00001-of-00002.h5", "recipe.yaml", "MANIFEST.json", "COMMIT"}) {
    Attempt attempt({.call = DiskCall::kFlush, .path = file, .error = EIO});
    EXPECT_MENTIONS(attempt.error, "Input/output error") << file;
    EXPECT_EQ(attempt.faulty.calls(DiskCall::kFlush, file), 1) << file;
    EXPECT_FALSE(attempt.committed()) << file;
    EXPECT_EQ(attempt.harm_done(), "") << file;
  }
}

TEST(Fault, AFailedShardLeavesNoFile) {
  for (const DiskCall call : {DiskCall::kReserve, DiskCall::kWrite, DiskCall::kFlush, DiskCall::kClose}) {
    Attempt attempt({.call = call, .path = "shard-00000-of-00002.h5", .error = EIO});
    EXPECT_NE(attempt.error, "");
    EXPECT_TRUE(attempt.left().empty()) << attempt.left().front();
  }
}

/// Saves and loads with these faults as if there were none.
void expect_invisible(const std::vector<Fault>& faults) {
  MemoryDisk disk(commits(2));
  InUse<FaultyDisk> faulty(disk, faults);
  const TinyRun run;
  run.save(3);
  run.prune(2);
  const Reader reader(run.root);
  EXPECT_EQ(reader.step(), 3);
  EXPECT_EQ(TinyRun::wrong_content(reader), "");
  EXPECT_EQ(wrong_in_bulk(reader), "");
  EXPECT_EQ(run.wrong_in(run.folder(3)), "");
  for (std::size_t i = 0; i < faults.size(); ++i) EXPECT_GE(faulty.struck(i), 5) << i;
}

TEST(Fault, ShortTransfersAreInvisible) {
  for (const std::size_t bytes : {1U, 100U, 4095U}) {
    expect_invisible(
        {{.call = DiskCall::kWrite, .times = Fault::kForever, .does = Fault::Does::kShorten, .bytes = bytes},
         {.call = DiskCall::kRead, .times = Fault::kForever, .does = Fault::Does::kShorten, .bytes = bytes}});
  }
}

TEST(Fault, InterruptedCallsAreInvisible) {
  std::vector<Fault> faults;
  for (const DiskCall call : {DiskCall::kOpen, DiskCall::kCreate, DiskCall::kWrite, DiskCall::kRead})
    faults.push_back({.call = call, .times = Fault::kForever, .every = 2, .error = EINTR});
  expect_invisible(faults);
}

TEST(Fault, AWriteThatMovesNothingIsAnErrorNotAHang) {
  Attempt attempt(
      {.call = DiskCall::kWrite, .times = Fault::kForever, .does = Fault::Does::kShorten, .bytes = 0});
  EXPECT_MENTIONS(attempt.error, "cannot write");
  EXPECT_EQ(attempt.harm_done(), "");
}

TEST(Fault, AFileSystemThatCannotReserveIsNoFault) {
  Attempt attempt({.call = DiskCall::kReserve, .times = Fault::kForever, .error = EOPNOTSUPP});
  EXPECT_EQ(attempt.error, "");
  EXPECT_EQ(attempt.faulty.struck(), 2);
  EXPECT_EQ(attempt.harm_done(), "");
}

TEST(Fault, ADiskThatHangsAndComesBackEndsInACommit) {
  MemoryDisk disk(commits(2));
  InUse<FaultyDisk> faulty(
      disk, {{.call = DiskCall::kFlush, .path = "shard-", .does = Fault::Does::kHang},
             {.call = DiskCall::kWrite, .path = "shard-", .does = Fault::Does::kDelay, .milliseconds = 5}});
  const TinyRun run;
  std::thread saving([&] { run.save(3); });
  while (faulty.struck(0) == 0) std::this_thread::yield();
  EXPECT_EQ(Reader(run.root).step(), 2);  // readers do not care
  faulty.release();
  saving.join();
  EXPECT_EQ(faulty.struck(1), 1);
  EXPECT_EQ(Reader(run.root).step(), 3);
}

TEST(Fault, ADiskThatHangsHoldsUpTheCopyOfTheStateNoLongerThanASaveMayTake) {
  MemoryDisk disk(DiskTree("/"));
  InUse<FaultyDisk> faulty(disk, {{.path = "shard-", .nth = 2, .does = Fault::Does::kHang}});
  const TensorInfo tensor{"model/w", DType::kF32, {12 << 20}};
  const std::vector<std::byte> state(48 << 20);  // more windows than a pipe has
  const std::vector<Slice> slices{{.tensor = tensor, .end = 12 << 20, .bytes = state}};
  const std::string id = TinyRun::save_id(1);
  RankSave save({.folder = TinyRun().folder(1), .waits = true, .timeout_s = 1}, plan_shard(1, 2, id, slices),
                slices, std::make_shared<Staging>(0));
  save.stage();
  EXPECT_EQ(save.status().state, RankSave::State::kRunning);
  faulty.release();
  const RankSave::Status ended = save.wait(60);
  EXPECT_EQ(ended.state, RankSave::State::kFailed);
  EXPECT_MENTIONS(ended.error, "not written within 1 s (checkpoint.timeout_s)");
}

TEST(Fault, AnIndexThatCannotBeReadIsNoDamage) {
  MemoryDisk disk(commits(2));
  const TinyRun run;
  InUse<FaultyDisk> faulty(
      disk, {{.call = DiskCall::kRead, .path = "step-000000002.00000002/shard-00001", .error = EIO}});
  const auto error = echelon::test::thrown_by([&] { Reader{run.root}; });
  ASSERT_TRUE(error) << "took another step in its place";
  EXPECT_TRUE(error->is_of_system());
  EXPECT_MENTIONS(error->what(), "Input/output error", "shard-00001-of-00002.h5");
  EXPECT_EQ(Reader(run.root).step(), 2);
}

TEST(Fault, TensorBytesThatCannotBeReadAreNamed) {
  const TinyRun run;
  for (const TensorInfo& tensor : TinyRun::tensors()) {
    MemoryDisk disk(commits(2));
    FaultyDisk faulty(disk,
                      {{.call = DiskCall::kRead, .path = "shard-", .times = Fault::kForever, .error = EIO}});
    std::unique_ptr<Reader> reader;
    {
      const fs::DiskInUse in_use(disk);
      reader = std::make_unique<Reader>(run.root);
    }
    const fs::DiskInUse in_use(faulty);
    const std::uint64_t elements = element_count(tensor);
    std::vector<std::byte> bytes(elements * size_of(tensor.dtype));
    const std::vector<Reader::Request> request{{tensor.name, 0, elements, bytes}};
    for (const std::string& error : {error_of([&] { (void)read_all(*reader, tensor); }),
                                     error_of([&] { reader->read_many(request); })}) {
      EXPECT_MENTIONS(error, "Input/output error", "'" + tensor.name + "'", "rank ");
    }
  }
}

// The same with the real thing.

/// A file system of its own, where the process may mount one.
class Mounted {
 public:
  explicit Mounted(const std::string& options)
      : mounted_(::mount("none", dir_.path().c_str(), "tmpfs", 0, options.c_str()) == 0) {}
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;
  ~Mounted() {
    if (mounted_) ::umount2(dir_.path().c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool works() const { return mounted_; }
  [[nodiscard]] const Path& path() const { return dir_.path(); }

 private:
  TempDir dir_;
  bool mounted_;
};

/// Saves until the disk has had enough; then steps 1 and 2 must be whole, and with room again the run goes
/// on.
void expect_full_disk_is_survived(const Mounted& disk, const std::function<void()>& make_room,
                                  const std::string& reason) {
  const TinyRun run{.root = disk.path()};
  std::string error;
  std::int64_t step = 1;
  for (; error.empty(); ++step) error = error_of([&] { run.save(step); });
  EXPECT_MENTIONS(error, reason);
  ASSERT_GT(step, 3);
  for (const Found& found : list(run.checkpoints())) {
    EXPECT_EQ(found.problem, "");
    if (found.committed) {
      EXPECT_EQ(run.wrong_in(found.folder), "");
    } else {
      EXPECT_EQ(found.step, step - 1);
    }
  }
  EXPECT_EQ(Reader(run.root).step(), step - 2);
  make_room();
  run.save(step);
  run.prune(2);
  EXPECT_EQ(run.leaves({step - 2, step}), "");
}

TEST(Fault, ARealFullDiskIsSurvived) {
  const Mounted disk("size=200k");
  if (!disk.works()) GTEST_SKIP() << "needs the right to mount";
  expect_full_disk_is_survived(
      disk, [&] { ::mount("none", disk.path().c_str(), "tmpfs", MS_REMOUNT, "size=8m"); },
      "No space left on device");
}

TEST(Fault, ARealDiskWithoutInodesIsSurvived) {
  const Mounted disk("nr_inodes=24");
  if (!disk.works()) GTEST_SKIP() << "needs the right to mount";
  expect_full_disk_is_survived(
      disk, [&] { ::mount("none", disk.path().c_str(), "tmpfs", MS_REMOUNT, "nr_inodes=1000"); },
      "No space left on device");
}

TEST(Fault, ARealReadOnlyDiskCanBeReadAndRefusesSaves) {
  const Mounted disk("size=4m");
  if (!disk.works()) GTEST_SKIP() << "needs the right to mount";
  const TinyRun run{.root = disk.path()};
  for (std::int64_t step = 1; step <= 3; ++step) run.save(step);
  ASSERT_EQ(::mount("none", disk.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, ""), 0);
  const std::string error = error_of([&] { run.save(4); });
  EXPECT_MENTIONS(error, "cannot create folder", "Read-only file system");
  EXPECT_MENTIONS(said_by([&] { EXPECT_EQ(error_of([&] { run.prune(2); }), ""); }), "Read-only file system");
  const Reader reader(run.root);
  EXPECT_EQ(reader.step(), 3);
  EXPECT_EQ(TinyRun::wrong_content(reader), "");
}

TEST(Fault, ARealLackOfFileDescriptorsIsAnError) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizers' own check of a thrown object's type opens a pipe";
#endif
  const TempDir dir;
  const TinyRun run{.root = dir.path()};
  run.save(1);
  const auto refusal = [](const auto& body) {
    const SoftLimit none(RLIMIT_NOFILE, 0);
    return error_of(body);
  };
  EXPECT_MENTIONS(refusal([&] { run.save(2); }), "Too many open files");
  EXPECT_MENTIONS(refusal([&] { Reader{run.root}; }), "Too many open files");
  EXPECT_EQ(Reader(run.root).step(), 1);
  run.save(3);
  EXPECT_EQ(run.wrong_in(run.folder(3)), "");
}

}  // namespace
}  // namespace echelon::checkpoint
