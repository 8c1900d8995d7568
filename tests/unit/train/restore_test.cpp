#include "train/restore.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/files/disk.h"
#include "checkpoint/folder/run_folder.h"
#include "comm/local_communicator.h"
#include "support/faulty_disk.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/temp_dir.h"
#include "train/memory/memory_saves.h"
#include "train/trainer_state.h"
#include "unit/train/small_run.h"

namespace echelon {
namespace {

struct InTemporary {
  test::TempDir temporary;
};

struct OneRun : InTemporary, test::SmallRun {
  OneRun() : SmallRun(temporary.path()) {}
  bool restore() { return restore_latest({}, folder, comm, state).has_value(); }
};

/// What a validation loss of NaN made of a trainer's state.
std::string poisoned(OneRun& run, std::int64_t step) {
  run.state.step = step;
  run.state.best = BestValidation{2, 1.5};
  std::string text = trainer_state_json(run.state, 1);
  run.state.best.reset();
  return text.replace(text.find("1.5"), 3, "null");
}

struct Restore : ::testing::Test {
  OneRun run;
};

TEST_F(Restore, ATrainerStateThatIsUnsoundIsPassedOver) {
  run.state.tokens = 99;
  run.state.skipped = 2;
  run.state.skipped_in_a_row = 1;
  run.save(2);
  run.state.skipped_in_a_row = 2;
  run.state.tokens = 199;
  run.save(4, poisoned(run, 4));
  run.save(6, R"({"step":6})");
  run.save(8, "{}");
  ASSERT_TRUE(run.restore());
  EXPECT_EQ(run.state.step, 2);
  EXPECT_EQ(run.state.position.next_sample, 16);
  EXPECT_EQ(run.state.tokens, 99);
  EXPECT_EQ(run.state.skipped_in_a_row, 1);
}

TEST_F(Restore, WhereAllTrainerStatesAreUnsoundThatIsACheckpointFaultThatNamesTheFolder) {
  const std::string name = run.save(4, poisoned(run, 4)).filename().string();
  const std::string said = test::refusal(Code::kCheckpoint, [&] { return run.restore(); });
  EXPECT_MENTIONS(said, name, "validation_loss");
}

/// Reading from a folder fails, the first `times` times.
test::Fault unreadable(const std::filesystem::path& folder, int times) {
  return {.call = test::DiskCall::kRead, .path = folder, .times = times, .error = EIO};
}

TEST_F(Restore, AReadErrorIsNoDamage) {
  run.save(2);
  const auto newest = run.save(4);
  {
    test::InUse<test::FaultyDisk> disk(fs::disk(), {unreadable(newest, 1000)});
    const std::string said = test::refusal(Code::kPeer, [&] { return run.restore(); });
    EXPECT_MENTIONS(said, newest.string(), "Input/output error");
  }
  for (const int times : {1, 2}) {  // the list of commits, and the first attempt to open it
    test::InUse<test::FaultyDisk> disk(fs::disk(), {unreadable(newest, times)});
    ASSERT_TRUE(run.restore());
    EXPECT_EQ(run.state.step, 4) << times;
  }
}

// What a checkpoint's recipe says decides whether it may be resumed.
TEST_F(Restore, AReadErrorOfAnAttachmentIsTriedAgainAndIsNoDamage) {
  run.save(2);
  run.save(4);
  int errors = 0;
  const Inspect inspect = [&errors](const checkpoint::Reader&) {
    if (errors-- > 0)
      throw Error::of_system(Code::kCheckpoint, "cannot read recipe.yaml: Input/output error");
    return Differences{};
  };
  const auto restore = [&] {
    return restore_latest({}, run.folder, run.comm, run.state, inspect).has_value();
  };
  errors = 1;
  EXPECT_TRUE(restore());
  EXPECT_EQ(run.state.step, 4);
  errors = 1000;
  EXPECT_MENTIONS(test::refusal(Code::kPeer, restore), "recipe.yaml: Input/output error");
}

// A run that fell back from a damaged commit has made another one of the same step.
TEST_F(Restore, OfTwoCommitsOfAStepTheNewerOneIsTaken) {
  for (const int round : {0, 1, 2}) {  // whatever their names
    OneRun one;
    const auto older = one.save(4);
    const auto newer = one.save(4);
    const auto commit = newer / checkpoint::kCommitFile;
    std::filesystem::last_write_time(commit,
                                     std::filesystem::last_write_time(commit) + std::chrono::seconds(9));
    EXPECT_EQ(checkpoint::list(one.folder.checkpoints()).back().folder, newer) << round;
  }
}

TEST_F(Restore, AReadErrorOfMemoryIsNoDamageAndRemovesNothing) {
  using test::DiskCall;
  const test::TempDir shm;
  CheckpointOptions options;
  options.memory_every_steps = 2;
  options.memory_dir = shm.path().string();
  const JobInfo job{.size = 1, .local_size = 1, .host = "a", .hosts = {"a"}};
  {
    RunMemory memory(options, run.folder, job, run.comm);
    MemorySaves saves(options, memory, run.state, {});
    run.state.step = 4;
    run.state.position.next_sample = 32;
    saves.save(run.state, std::make_shared<checkpoint::Staging>(0), false, {.newest_sound = "0a1b2c3d"});
    while (memory.candidates().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // While it is looked for, put together, and read.
  for (const auto& [file, nth] :
       {std::pair{"NODE.json", 1}, {"INFO", 2}, {"shard-00000", 1}, {"shard-00000", 4}}) {
    test::InUse<test::FaultyDisk> disk(
        fs::disk(),
        {{.call = DiskCall::kRead, .path = file, .nth = nth, .times = test::Fault::kForever, .error = EIO}});
    RunMemory memory(options, run.folder, job, run.comm);
    EXPECT_TRUE(test::error_of([&] {
                  (void)restore_latest(options, run.folder, run.comm, run.state, {}, &memory);
                }).starts_with("7: "))
        << file << " " << nth;
    EXPECT_GT(disk.struck(), 0);
  }
  RunMemory memory(options, run.folder, job, run.comm);
  run.state.step = 0;
  const auto restored = restore_latest(options, run.folder, run.comm, run.state, {}, &memory);
  ASSERT_TRUE(restored.has_value());
  EXPECT_EQ(restored->memory, "node a");
  EXPECT_EQ(restored->known.resumed_from, "0a1b2c3d") << "nobody reads the disk";
  EXPECT_EQ(run.state.step, 4);
}

TEST_F(Restore, TellsWhatWasReadWholeAndWhatIsDamaged) {
  const auto sound = run.save(2);
  const auto damaged = run.save(4);
  const auto shard = damaged / "shard-00000-of-00001.h5";
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  const auto restored = restore_latest({}, run.folder, run.comm, run.state);
  ASSERT_TRUE(restored.has_value());
  EXPECT_EQ(restored->known.readable, std::set<std::string>{sound.filename()});
  EXPECT_EQ(restored->known.damaged, std::set<std::string>{damaged.filename()});
}

TEST_F(Restore, AnotherModelOfTheSameShapesIsRefused) {
  run.save(2);
  const Inspect inspect = [](const checkpoint::Reader& reader) -> Differences {
    return {.model = reader.step() == 2 ? "model.heads 2 -> 4" : ""};
  };
  const std::string said = test::refusal(
      Code::kCheckpoint, [&] { (void)restore_latest({}, run.folder, run.comm, run.state, inspect); });
  EXPECT_MENTIONS(said, "model.heads 2 -> 4");
}

TEST_F(Restore, ALinkedStepFolderIsNamed) {
  run.save(2);
  const auto newest = run.save(4);
  std::filesystem::rename(newest, run.temporary.path() / "elsewhere");
  std::filesystem::create_directory_symlink(run.temporary.path() / "elsewhere", newest);
  EXPECT_MENTIONS(test::said_by([&] { ASSERT_TRUE(run.restore()); }), newest.string());
  EXPECT_EQ(run.state.step, 2);
}

/// What starting from `source`'s weights says, as an error or a warning.
std::string said_of(const OneRun& source, const CheckpointOptions& options, const ModelOptions& model,
                    WeightMatch* match = nullptr) {
  LocalCommunicator comm;
  ShardedModel sharded(build_model(model, at::kFloat, at::kCPU), comm, {}, 5, at::kCPU);
  const auto optim = std::make_unique<Optimizer>(OptimOptions{.kind = OptimKind::kSgd}, sharded);
  TrainState state{.model = sharded, .optim = *optim, .data = *source.data};
  CheckpointOptions from = options;
  from.init_from = source.temporary.path();
  ::testing::internal::CaptureStderr();
  try {
    const WeightMatch found = load_initial_weights(from, comm, state);
    if (match != nullptr) *match = found;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kCheckpoint);
    (void)::testing::internal::GetCapturedStderr();
    return e.what();
  }
  return ::testing::internal::GetCapturedStderr();
}

TEST(InitialWeights, OfAnotherModelAreTakenOnlyWhenAskedFor) {
  OneRun source;
  source.save(2);
  ModelOptions shallow = test::small_options();
  shallow.layers = 1;
  const ModelOptions tied = test::small_options(true);
  ModelOptions deep = test::small_options();
  deep.layers = 3;
  const struct {
    ModelOptions model;
    std::string named;
    std::size_t dropped, fresh;
  } cases[] = {
      {shallow, "model.layers.1.", 9, 0}, {tied, "lm_head.weight", 1, 0}, {deep, "model.layers.2.", 0, 9}};
  for (const auto& one : cases) {
    const std::string refused = said_of(source, {}, one.model);
    EXPECT_MENTIONS(refused, one.named, "checkpoint.init_partial");
    WeightMatch match;
    const std::string warned = said_of(source, {.init_partial = true}, one.model, &match);
    EXPECT_MENTIONS(warned, one.named);
    EXPECT_EQ(match.dropped.size(), one.dropped);
    EXPECT_EQ(match.fresh.size(), one.fresh);
  }
  EXPECT_EQ(said_of(source, {}, test::small_options()), "");
}

TEST(InitialWeights, OfWhichNoneFitsAreRefused) {
  OneRun source;
  source.save(2);
  ModelOptions wide = test::small_options();
  wide.hidden_size = 12;
  EXPECT_MENTIONS(said_of(source, {.init_partial = true}, wide), "no weight fits");
}

TEST(InitialWeights, ThatDoNotFitStartFresh) {
  OneRun source;
  for (const auto& unit : source.model.units()) unit->master().fill_(7);
  source.save(2);
  LocalCommunicator comm;
  ModelOptions deep = test::small_options();
  deep.layers = 3;
  ShardedModel sharded(build_model(deep, at::kFloat, at::kCPU), comm, {}, 5, at::kCPU);
  const auto optim = std::make_unique<Optimizer>(OptimOptions{.kind = OptimKind::kSgd}, sharded);
  TrainState state{.model = sharded, .optim = *optim, .data = *source.data};
  (void)load_initial_weights({.init_from = source.temporary.path(), .init_partial = true}, comm, state);
  for (const auto& unit : sharded.units()) {
    for (const SlicePiece& piece : unit->pieces()) {
      const bool fresh = piece.part->name.find("layers.2.") != std::string::npos;
      const at::Tensor values = unit->master().narrow(0, piece.at, piece.end - piece.begin);
      EXPECT_EQ((values == 7).all().item<bool>(), !fresh) << piece.part->name;
    }
  }
}

}  // namespace
}  // namespace echelon
