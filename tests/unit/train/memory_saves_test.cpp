#include "train/memory/memory_saves.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/files/disk.h"
#include "support/faulty_disk.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/temp_dir.h"
#include "support/thread_ranks.h"
#include "support/variable.h"
#include "train/restore.h"
#include "unit/train/small_run.h"

namespace echelon {
namespace {

using test::DiskCall;
using test::FaultyDisk;

JobInfo job_of(int rank, int ranks) {
  return {.rank = rank,
          .size = ranks,
          .local_rank = rank,
          .local_size = ranks,
          .host = "a",
          .hosts = std::vector<std::string>(static_cast<std::size_t>(ranks), "a")};
}

/// A run of one rank that saves to memory.
struct MemoryRun {
  MemoryRun() { options.memory_dir = shm.path().string(); }

  /// The memory and the saves of one start.
  struct Start {
    explicit Start(MemoryRun& one)
        : run(one), memory(one.options, one.run.folder, job_of(0, 1), one.run.comm) {
      restored = restore_latest(one.options, one.run.folder, one.run.comm, one.run.state, {}, &memory);
      saves = std::make_unique<MemorySaves>(one.options, memory, one.run.state,
                                            std::map<std::string, std::string>{});
    }
    /// Tries until the save before has ended.
    void begin(std::int64_t step) {
      run.run.state.step = step;
      run.run.state.position.next_sample = 8 * step;
      wait([&] {
        saves->save(run.run.state, run.staging, false, {});
        for (const auto& entry : std::filesystem::directory_iterator(memory.folder().path())) {
          const auto name = checkpoint::parse_step_folder(entry.path().filename().string());
          if (name && name->step == step) return true;
        }
        return false;
      });
    }
    /// Saves, and waits until this node has all of it.
    void save(std::int64_t step) {
      begin(step);
      wait([&] { return newest() == step; });
    }
    [[nodiscard]] std::int64_t newest() {
      const auto found = memory.candidates();
      return found.empty() ? -1 : found.front().step;
    }

    MemoryRun& run;
    RunMemory memory;
    std::optional<Restored> restored;
    std::unique_ptr<MemorySaves> saves;
  };

  static void wait(const std::function<bool()>& until) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!until() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_TRUE(until());
  }

  test::TempDir dir;
  test::TempDir shm;
  test::SmallRun run{dir.path()};
  CheckpointOptions options{.memory_every_steps = 2};
  std::shared_ptr<checkpoint::Staging> staging = std::make_shared<checkpoint::Staging>(1);
};

TEST(MemorySaves, ACopyThatIsNotYetWrittenIsGivenUpBeforeTheLastSaveToDisk) {
  for (const bool last : {false, true}) {
    MemoryRun run;
    test::InUse<FaultyDisk> slow(fs::disk(),
                                 {{.call = DiskCall::kUnlink,  // of the save of step 2, to make room
                                   .path = "shard-00000",
                                   .does = test::Fault::Does::kDelay,
                                   .milliseconds = 1500}});
    MemoryRun::Start start(run);
    start.save(2);
    start.save(4);
    start.begin(6);
    start.saves->let_go_of_staging(last);
    ASSERT_EQ(slow.struck(), 1);
    if (!last) MemoryRun::wait([&] { return start.newest() == 6; });
    EXPECT_EQ(start.newest(), last ? 4 : 6);
  }
}

// A rank that was on this node then, and has another place in this start.
TEST(MemorySaves, ShardsThatNoRankHereReplacesMakeRoomToo) {
  MemoryRun run;
  test::InUse<FaultyDisk> full(fs::disk(),
                               {{.path = "step-000000006", .times = test::Fault::kForever, .error = ENOSPC}});
  MemoryRun::Start start(run);
  start.save(2);
  const auto older = start.memory.candidates().front();
  const auto of_another = start.memory.folder().step(2, older.save_id) / "shard-00007-of-00008.h5";
  std::ofstream(of_another) << "its bytes";
  start.save(4);
  EXPECT_EQ(start.memory.candidates().size(), 2U);
  EXPECT_TRUE(std::filesystem::exists(of_another))
      << "the save of step 2 stays until that of step 4 is whole";
  start.begin(6);
  start.saves->let_go_of_staging(false);
  ASSERT_GT(full.struck(), 0);
  EXPECT_FALSE(std::filesystem::exists(of_another));
}

TEST(MemoryRestores, AStateThatFindsNoRoomGivesWayToTheDiskAndIsNoneToBeginAnewWithout) {
  MemoryRun run;
  MemoryRun::Start(run).save(4);
  const auto restore = [&] {
    test::InUse<FaultyDisk> full(
        fs::disk(), {{.call = DiskCall::kLink, .path = "assembled", .times = 9, .error = ENOSPC}});
    return MemoryRun::Start(run).restored;
  };
  EXPECT_MENTIONS(test::refusal(Code::kEnvironment, [&] { (void)restore(); }), "step 4 in memory",
                  "No space left on device", "no checkpoint on disk");
  EXPECT_EQ(MemoryRun::Start(run).newest(), 4) << "it is still there";
  run.run.save(2);
  const auto restored = restore();
  ASSERT_TRUE(restored.has_value());
  EXPECT_EQ(restored->memory, "");
  EXPECT_EQ(run.run.state.step, 2);
}

TEST(MemoryRestores, MayTakeLongerThanACollectiveMayWait) {
  constexpr double kDeadline_s = 2;
  MemoryRun run;
  MemoryRun::Start(run).save(4);
  // As it is put together, and as it is brought to the ranks: both on rank 0 alone.
  test::InUse<FaultyDisk> slow(fs::disk(), {{.call = DiskCall::kRead,
                                             .path = "assembled",
                                             .times = test::Fault::kForever,
                                             .does = test::Fault::Does::kDelay,
                                             .milliseconds = 1200}});
  const auto thrown = test::ThreadRanks::run(
      2,
      [&](Communicator& comm) {
        test::SmallRun one(run.dir.path());
        RunMemory memory(run.options, one.folder, job_of(comm.rank(), 2), comm);
        EXPECT_TRUE(restore_latest(run.options, one.folder, comm, one.state, {}, &memory).has_value());
        EXPECT_EQ(one.state.step, 4);
      },
      kDeadline_s);
  EXPECT_EQ(thrown, std::vector<std::exception_ptr>(2));
  EXPECT_GT(slow.struck(), 0);
}

TEST(OpenMemory, ARestartInPlaceGoesOnWithoutAFolderThatCannotBeUsed) {
  MemoryRun run;
  run.options.memory_dir = "/nowhere";
  const auto open = [&] { return open_memory(run.options, run.run.folder, job_of(0, 1), run.run.comm); };
  EXPECT_MENTIONS(test::refusal(Code::kUsage, [&] { (void)open(); }), "/nowhere");
  const test::Variable restart("ECHELON_RESTART_IN_PLACE", "1");
  EXPECT_MENTIONS(test::said_by([&] { EXPECT_EQ(open(), nullptr); }), "/nowhere", "no memory checkpoints");
}

}  // namespace
}  // namespace echelon
