// When saves fail, and what becomes of the best one: on a real disk, with calls that fail.
#include "train/save/checkpointer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "base/error.h"
#include "base/files/disk.h"
#include "base/str.h"
#include "checkpoint/folder/run_folder.h"
#include "comm/local_communicator.h"
#include "support/faulty_disk.h"
#include "support/in_temp_dir.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/suspend.h"
#include "support/thread_ranks.h"
#include "unit/train/small_model.h"

namespace echelon {
namespace {

using namespace test;  // NOLINT

/// One rank of a run that does nothing but save.
struct SavingRank {
  SavingRank(const std::filesystem::path& root, CheckpointOptions options, Communicator& comm,
             checkpoint::KnownSteps known = {}, const ModelOptions& shapes = small_options(),
             Checkpointer::OnSaved on_saved = {})
      : small(comm.rank(), comm.size(), {}, shapes),
        optim(std::make_unique<Optimizer>(OptimOptions{.kind = OptimKind::kSgd}, small.model)),
        data(make_loader({.kind = DataKind::kSyntheticTokens, .seq_len = 4}, 13, 1)),
        state{.model = small.model, .optim = *optim, .data = *data},
        folder(root, false),
        checkpointer(options, folder, comm, {}, std::move(on_saved), std::move(known)) {
    checkpointer.prepare(state, 1000);
  }

  void save(std::int64_t step, bool wait) {
    state.step = step;
    checkpointer.save(state, wait);
  }
  /// Validated with this loss, which is the lowest so far.
  void save_best(std::int64_t step, double loss, bool wait = false) {
    state.best = BestValidation{step, loss};
    save(step, wait);
  }

  test::SmallModel small;
  std::unique_ptr<Optimizer> optim;
  std::unique_ptr<Loader> data;
  TrainState state;
  RunFolder folder;
  Checkpointer checkpointer;
};

/// Steps that are committed below a run's folder.
std::vector<std::int64_t> steps_in(const std::filesystem::path& root) {
  std::vector<std::int64_t> steps;
  for (const checkpoint::Found& found : checkpoint::list(root / "checkpoints")) {
    EXPECT_EQ(found.problem, "");
    if (found.committed) steps.push_back(found.step);
  }
  return steps;
}
using Steps = std::vector<std::int64_t>;

std::string text_of(const std::exception_ptr& thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

/// A folder and the only rank of a run in it.
struct Checkpointing : InTempDir {
  LocalCommunicator comm;
};

TEST_F(Checkpointing, WhateverOneRankThrowsAtTheStartOfASaveReachesTheOthers) {
  // As after a failed allocation in the middle of a rank's part of a save.
  InUse<WatchedDisk> disk([](const auto& request, const auto& make) {
    if (request.path.find("shard-00001-of-00002.h5.part") != std::string::npos) throw std::bad_alloc();
    return make();
  });
  testing::internal::CaptureStderr();
  const auto thrown = ThreadRanks::run(2, [&](Communicator& its) {
    SavingRank rank(dir.path(), {}, its);
    rank.save(1, true);
  });
  (void)testing::internal::GetCapturedStderr();
  EXPECT_MENTIONS(text_of(thrown[0]), "step 1 was not saved", "out of memory");
  for (const auto& one : thrown) {
    EXPECT_THROW(std::rethrow_exception(one), Error);
  }
  EXPECT_EQ(steps_in(dir.path()), Steps{});
}

TEST_F(Checkpointing, ASlowRemovalOfAnOlderCheckpointIsNoFailedSave) {
  const CheckpointOptions options{.keep_last = 2, .timeout_s = 3};
  std::atomic<bool> begun{false};
  test::WatchedDisk disk([&](const auto& request, const auto& make) {
    const bool slow = request.call == DiskCall::kUnlink && request.path.find(".trash-") != std::string::npos;
    if (slow && !begun.exchange(true)) std::this_thread::sleep_for(std::chrono::seconds(14));
    return make();
  });
  const fs::DiskInUse in_use(disk);
  testing::internal::CaptureStderr();
  SavingRank rank(dir.path(), options, comm);
  for (const std::int64_t step : {1, 2, 3}) rank.save(step, true);
  EXPECT_MENTIONS(testing::internal::GetCapturedStderr(), "saved step 3 in ");
  EXPECT_TRUE(begun);
  EXPECT_EQ(rank.checkpointer.known().newest_commit, 3);
}

TEST_F(Checkpointing, TheTimeInWhichTheJobWasSuspendedIsNotThatOfASave) {
  double took_s = 0;
  SavingRank rank(dir.path(), {.timeout_s = 2}, comm, {}, small_options(),
                  [&](const Checkpointer::Saved& saved) { took_s = saved.seconds; });
  InUse<FaultyDisk> disk(
      fs::disk(),
      {{.call = DiskCall::kWrite, .path = "shard-", .does = Fault::Does::kDelay, .milliseconds = 1500}});
  rank.save(1, false);
  suspend(4);
  rank.checkpointer.wait_for_all();
  EXPECT_TRUE(rank.checkpointer.hear_of_end(rank.state));
  EXPECT_EQ(steps_in(dir.path()), Steps{1});
  EXPECT_GT(took_s, 0);
  EXPECT_LT(took_s, 3);
}

// With replicas of the state some ranks write, and the others have nothing to do.
TEST_F(Checkpointing, ARankWhoseDiskIsSlowIsWaitedForLongerThanACollectiveMay) {
  ModelOptions shapes = small_options();
  shapes.vocab_size = 1'500'000;  // so that a shard is larger than a pipe
  std::atomic<bool> begun{false};
  InUse<WatchedDisk> disk([&](const auto& request, const auto& make) {
    const bool slow =
        request.call == DiskCall::kWrite && request.path.find("shard-00000") != std::string::npos;
    if (slow && !begun.exchange(true)) std::this_thread::sleep_for(std::chrono::seconds(5));
    return make();
  });
  const auto thrown = ThreadRanks::run(
      2,
      [&](Communicator& its) {
        SavingRank rank(dir.path(), {}, its, {}, shapes);
        rank.save(1, true);
      },
      3);
  for (const auto& one : thrown) EXPECT_EQ(one, nullptr) << text_of(one);
  EXPECT_EQ(steps_in(dir.path()), Steps{1});
}

// A disk with room for what is kept and one save more would never take another.
TEST_F(Checkpointing, WhatASaveOfAnEarlierStartLeftUnfinishedGoesAtTheStart) {
  const auto attempt = dir.path() / "checkpoints" / "step-000000009.0a1b2c3d";
  for (const bool commit : {false, true}) {
    std::filesystem::create_directories(attempt);
    SavingRank rank(dir.path(), {.keep_last = 2}, comm);
    EXPECT_EQ(std::filesystem::exists(attempt), !commit) << "without a commit it is all that there is";
    if (!commit) rank.save(1, true);
  }
  EXPECT_EQ(steps_in(dir.path()), Steps{1});
}

TEST_F(Checkpointing, ACommitThatIsNotCertainToLastStaysAndNothingOlderGoes) {
  SavingRank rank(dir.path(), {.keep_last = 2}, comm);
  rank.save(1, true);
  rank.save(2, true);
  for (std::int64_t step = 3; step <= 5; ++step) {
    bool committed = false;
    InUse<WatchedDisk> disk([&](const auto& request, const auto& make) {
      committed = committed || std::filesystem::path(request.to).filename() == "COMMIT";
      return committed && request.call == DiskCall::kFlush ? test::failed(EIO) : make();
    });
    const std::string told = test::said_by([&] { rank.save(step, true); });
    EXPECT_MENTIONS(told, str("step ", step, " is committed, but its durability is uncertain"));
    EXPECT_FALSE(test::mentions(told, "was not saved"));
  }
  EXPECT_EQ(steps_in(dir.path()), (Steps{1, 2, 3, 4, 5}));
  rank.save(6, true);
  // Those that are not certain to last do not count.
  EXPECT_EQ(steps_in(dir.path()), (Steps{2, 3, 4, 5, 6}));
}

TEST_F(Checkpointing, StartsFromMemoryRemoveWhatIsOld) {
  checkpoint::KnownSteps known;
  for (std::int64_t step = 2; step <= 20; step += 2) {
    SavingRank rank(dir.path(), {.keep_last = 3}, comm, known);
    rank.save(step - 1, true);
    rank.save(step, true);
    // What a save in memory carries to the next start.
    known = {.resumed_from = rank.checkpointer.known().newest_sound, .newest_commit = step};
  }
  EXPECT_EQ(steps_in(dir.path()), (Steps{18, 19, 20}));
}

TEST_F(Checkpointing, ABestThatCouldNotBeSavedDoesNotCostTheOneBefore) {
  SavingRank rank(dir.path(), {.keep_last = 2, .keep_best = true, .max_failures = 10}, comm);
  rank.save_best(10, 3.0, true);
  testing::internal::CaptureStderr();
  {
    InUse<FaultyDisk> disk(fs::disk(), {{.call = DiskCall::kFlush, .path = "shard-", .error = EIO}});
    rank.save_best(20, 2.0);
    rank.save(21, true);  // learns of it
  }
  (void)testing::internal::GetCapturedStderr();
  ASSERT_TRUE(rank.state.best);
  EXPECT_EQ(rank.state.best->step, 10) << "the best that is on the disk";
  for (std::int64_t step = 30; step <= 60; step += 10) rank.save(step, true);
  EXPECT_EQ(steps_in(dir.path()), (Steps{10, 50, 60}));
  rank.save_best(70, 2.5, true);  // worse than the lost one, and the best there is
  rank.save(80, true);
  rank.save(90, true);
  EXPECT_EQ(steps_in(dir.path()), (Steps{70, 80, 90}));
}

TEST_F(Checkpointing, BeforeTheNextSaveIsHeardHowTheLastOneEnded) {
  SavingRank rank(dir.path(), {.keep_best = true, .max_failures = 2}, comm);
  const auto hear = [&] {
    rank.checkpointer.wait_for_all();
    EXPECT_TRUE(rank.checkpointer.hear_of_end(rank.state));
    EXPECT_TRUE(rank.checkpointer.hear_of_end(rank.state)) << "nothing is in flight";
  };
  rank.save_best(10, 3.0);
  hear();
  EXPECT_EQ(rank.checkpointer.known().newest_commit, 10);
  {
    InUse<FaultyDisk> disk(fs::disk(),
                           {{.call = DiskCall::kFlush, .path = "shard-", .times = 2, .error = EIO}});
    rank.save_best(20, 2.0);
    hear();
    EXPECT_EQ(rank.state.best->step, 10) << "a save in memory must not name what is not on disk";
    EXPECT_EQ(rank.checkpointer.known().newest_commit, 10);
    rank.save(30, false);
    hear();
  }
  EXPECT_MENTIONS(test::refusal(Code::kCheckpoint, [&] { rank.save(40, false); }), "2 failed saves in a row");
}

TEST_F(Checkpointing, ANewBestWaitsForTheSaveBeforeIt) {
  SavingRank rank(dir.path(), {.keep_last = 2, .keep_best = true}, comm);
  InUse<FaultyDisk> disk(
      fs::disk(), {{.call = DiskCall::kFlush,
                    .path = "shard-",
                    .does = Fault::Does::kDelay,
                    .milliseconds = 1500}});  // longer than the patience with a save that is due by its time
  rank.save(10, false);
  rank.save_best(11, 2.0);
  rank.save(12, true);
  EXPECT_EQ(steps_in(dir.path()), (Steps{11, 12}));
}

TEST_F(Checkpointing, TrainingWaitsForAllOfASaveThatIsNotWrittenBesideIt) {
  std::vector<Checkpointer::Saved> saves;
  SavingRank rank(dir.path(), {.async = false, .max_failures = 2}, comm, {}, small_options(),
                  [&](const Checkpointer::Saved& saved) { saves.push_back(saved); });
  rank.save(10, false);
  rank.save(20, true);
  ASSERT_EQ(saves.size(), 2U);
  for (const Checkpointer::Saved& saved : saves) {
    EXPECT_TRUE(saved.waited);
    EXPECT_GE(saved.stall_s, saved.seconds);
  }
  InUse<FaultyDisk> disk(fs::disk(),
                         {{.call = DiskCall::kFlush, .path = "shard-", .times = 3, .error = EIO}});
  EXPECT_MENTIONS(test::said_by([&] { rank.save(30, false); }), "step 30 was not saved",
                  "training continues");
  for (const bool last : {false, true}) {
    const std::string told = test::said_by([&] { EXPECT_THROW(rank.save(40, last), Error); });
    EXPECT_EQ(told, "") << "the error tells, and that training continues were wrong";
  }
}

TEST_F(Checkpointing, MemoryForSavesIsTakenWhenTheFirstOfThemComesNear) {
  SavingRank rank(dir.path(), {.every_steps = 1'000'000}, comm);
  rank.checkpointer.prepare(rank.state, 1'000'000);  // none before the end
  EXPECT_EQ(rank.checkpointer.staging_bytes(), 0U);
  rank.checkpointer.poll(999'999);
  EXPECT_EQ(rank.checkpointer.staging_bytes(), 0U);
  rank.checkpointer.prepare(rank.state, 3'000'000);
  EXPECT_EQ(rank.checkpointer.staging_bytes(), 0U);
  rank.checkpointer.poll(999'999);
  rank.save(1'000'000, false);
  EXPECT_GT(rank.checkpointer.staging_bytes(), 0U);
  rank.save(1'000'001, true);
}

TEST_F(Checkpointing, ABestThatIsGoneIsForgottenAtTheStart) {
  const CheckpointOptions options{.keep_last = 2, .keep_best = true};
  {
    SavingRank rank(dir.path(), options, comm);
    rank.save_best(10, 3.0, true);
    for (const char* file : {"COMMIT", "MANIFEST.json", "none"}) {
      InUse<FaultyDisk> disk(fs::disk(), {{.call = DiskCall::kRead, .path = file, .error = EIO}});
      rank.checkpointer.prepare(rank.state, 1000);
      ASSERT_TRUE(rank.state.best) << file;
    }
    for (std::int64_t step = 20; step <= 40; step += 10) rank.save(step, true);
    EXPECT_EQ(steps_in(dir.path()), (Steps{10, 30, 40}));
  }
  SavingRank rank(dir.path(), options, comm);
  rank.state.best = BestValidation{5, 1.0};
  EXPECT_MENTIONS(test::said_by([&] { rank.checkpointer.prepare(rank.state, 1000); }), "step 5, is not in");
  EXPECT_FALSE(rank.state.best);
}

}  // namespace
}  // namespace echelon
