// echelon-ckpt prune, gc and reshard, run as a user runs them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/str.h"
#include "checkpoint/folder/lease.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/coverage.h"
#include "support/matches.h"
#include "unit/checkpoint/tool/run_tool.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT
using nlohmann::json;

std::vector<TensorInfo> one_tensor() {
  return {{"model/w", DType::kF32, {9}}};
}

/// Steps 1 to `count`, and the leftovers of a save that did not finish.
Path make_run(const TempDir& dir, int count, const std::string& state = "{}") {
  const Path run = dir.path() / "run";
  for (int step = 1; step <= count; ++step)
    save(run / "checkpoints",
         {.step = step, .save_id = "0000000a", .ranks = 1, .tensors = one_tensor(), .trainer_state = state});
  std::filesystem::create_directory(run / "checkpoints" / "step-000000001.0000000b");
  return run;
}

std::vector<std::int64_t> steps_of(const Path& run) {
  return mapped(list(run / "checkpoints"), &Found::step);
}
using Steps = std::vector<std::int64_t>;

using PruneCommand = InTempDir;

TEST_F(PruneCommand, TellsWhatItWouldDoAndDoesItWithYes) {
  const Path run = make_run(dir, 5);
  const Outcome dry = succeeded(tool({"prune", run, "--keep-last", "2", "--keep-every", "2"}));
  EXPECT_MENTIONS(dry.out, "step-000000003.0000000a: older than the last 2",
                  "step-000000002.0000000a: kept every 2 steps",
                  "step-000000001.0000000b: its save did not finish", "would remove 3");
  EXPECT_EQ(tool({"prune", run, "--dry-run", "--keep-last", "2", "--keep-every", "2"}).out, dry.out);
  EXPECT_EQ(steps_of(run).size(), 6U);
  const Outcome done =
      succeeded(tool({"prune", run / "checkpoints", "--keep-last", "2", "--keep-every", "2", "--yes"}));
  EXPECT_MENTIONS(done.out, "removed 3 of 3");
  EXPECT_EQ(steps_of(run), (Steps{2, 4, 5}));
  EXPECT_MENTIONS(tool({"prune", run}).out, "nothing to remove");
}

TEST_F(PruneCommand, KeepsTheBestStepAndNamedOnes) {
  const Path run = make_run(dir, 6, R"({"best":{"step":2,"validation_loss":1.5}})");
  succeeded(tool({"prune", run, "--keep-last", "1", "--keep-step", "3", "--keep-step", "1", "--yes"}));
  EXPECT_EQ(steps_of(run), (Steps{1, 2, 3, 5, 6}));
  // A mistyped one, one that was never committed, and none.
  std::filesystem::create_directory(run / "checkpoints" / "step-000000007.0000000b");
  for (const char* step : {"33", "7"})
    expect_one_line(
        tool({"prune", run, "--keep-last", "2", "--keep-step", "3", "--keep-step", step, "--yes"}), 2,
        str("--keep-step ", step, ": '", run.string(), "' has no checkpoint of that step"));
  expect_one_line(tool({"prune", run, "--keep-last", "2", "--keep-step", "-5", "--yes"}), 2, "--keep-step");
  EXPECT_EQ(steps_of(run), (Steps{1, 2, 3, 5, 6, 7}));
}

TEST_F(PruneCommand, SaysThatTheBestStepIsNotThere) {
  const Path run = make_run(dir, 3, R"({"best":{"step":9,"validation_loss":1.5}})");
  const Outcome done = succeeded(tool({"prune", run, "--keep-last", "1", "--yes"}));
  EXPECT_MENTIONS(done.err, "step 9 had the best validation loss, but its checkpoint is missing");
}

TEST_F(PruneCommand, LeavesWhatIsReadAndSaysWho) {
  const Path run = make_run(dir, 4);
  const FolderLease lease(run / "checkpoints" / "step-000000001.0000000a");
  const json plan = json::parse(tool({"prune", run, "--keep-last", "2", "--yes", "--json"}).out);
  EXPECT_TRUE(plan["done"]);
  ASSERT_EQ(plan["entries"].size(), 5U);
  EXPECT_FALSE(plan["entries"][0]["goes"]);
  EXPECT_MENTIONS(plan["entries"][0]["why"], str("read by process ", ::getpid()));
  EXPECT_EQ(steps_of(run), (Steps{1, 3, 4}));
}

TEST_F(PruneCommand, ReadsWhatCounts) {
  const Path run = make_run(dir, 4);
  const Path newest = run / "checkpoints" / "step-000000004.0000000a" / "shard-00000-of-00001.h5";
  flip_bit(newest, std::filesystem::file_size(newest) - 1);
  const Outcome quick = tool({"prune", run, "--keep-last", "2", "--quick"});
  EXPECT_MENTIONS(quick.out, "step-000000002.0000000a: older than the last 2");
  const Outcome done = succeeded(tool({"prune", run, "--keep-last", "2", "--yes"}));
  EXPECT_MENTIONS(done.err, "step-000000004.0000000a' does not count");
  EXPECT_MENTIONS(done.out, "step-000000004.0000000a: damaged, but newer");
  EXPECT_EQ(steps_of(run), (Steps{2, 3, 4}));
}

TEST_F(PruneCommand, RefusesWhatIsNoRun) {
  const Path run = make_run(dir, 2);
  expect_one_line(tool({"prune", run / "absent"}), 2, "no folder");
  expect_one_line(tool({"prune", run / "checkpoints" / "step-000000001.0000000a"}), 2, "is one checkpoint");
  expect_one_line(tool({"gc", run / "checkpoints" / "step-000000001.0000000a"}), 2, "is one checkpoint");
  expect_one_line(tool({"prune", run, "--keep-last", "-1"}), 2, "--keep-last");
  expect_one_line(tool({"prune", run, "--yes", "--dry-run"}), 2, "--dry-run");
}

TEST(GcCommand, RemovesLeftoversAndNothingElse) {
  const TempDir dir;
  const Path run = make_run(dir, 2);
  const Path trash = run / "checkpoints" / ".trash-step-000000001.00000000";
  std::filesystem::create_directory(trash);
  spill(trash / "shard-00000-of-00001.h5", std::string(5000, 'x'));
  const Outcome dry = succeeded(tool({"gc", run}));
  EXPECT_MENTIONS(dry.out, "would remove 2, 4.9 KiB");
  EXPECT_TRUE(std::filesystem::exists(trash));
  const json done = json::parse(tool({"gc", run, "--yes", "--json"}).out);
  EXPECT_EQ(done["entries"].size(), 2U);
  EXPECT_EQ(names_in(run / "checkpoints").size(), 2U);
  EXPECT_MENTIONS(tool({"gc", run, "--yes"}).out, "nothing to remove");
}

std::map<std::string, std::string> sums(const Reader& reader) {
  std::map<std::string, std::string> all;
  for (const TensorInfo& tensor : reader.tensors())
    all[tensor.name] = str(reader.checksum(tensor.name), ' ', reader.fingerprint(tensor.name).value(), ' ',
                           name_of(tensor.dtype));
  return all;
}

using ReshardCommand = InTempDir;

TEST_F(ReshardCommand, KeepsEverythingButTheNumberOfShards) {
  const Example example{.ranks = 3, .cut = random_cut(5)};
  const Path folder = write_shards(dir.path() / "run" / "checkpoints", example);
  CommitInfo info = commit_info(example);
  info.resumed_from = "0000000f";
  commit(folder, info);
  const Reader before(folder);
  for (const int world : {1, 2, 5, 64}) {
    const Path output = dir.path() / str("out", world);
    succeeded(tool({"reshard", dir.path() / "run", "--world", std::to_string(world), "--output", output}));
    const Reader after(output);
    EXPECT_EQ(after.ranks(), world);
    EXPECT_EQ(after.step(), before.step());
    EXPECT_EQ(after.trainer_state(), before.trainer_state());
    EXPECT_EQ(after.resumed_from(), "0000000f");
    EXPECT_EQ(sums(after), sums(before));
    EXPECT_EQ(after.attachments(), before.attachments());
    for (const std::string& name : before.attachments())
      EXPECT_EQ(after.attachment(name), before.attachment(name));
    for (const TensorInfo& tensor : example.tensors)
      EXPECT_EQ(read_all(after, tensor), content_of(tensor)) << tensor.name;
    EXPECT_NE(after.folder().filename(), before.folder().filename());
    succeeded(tool({"verify", output}));
    EXPECT_EQ(names_in(output).size(), 1U);
  }
  EXPECT_EQ(names_in(dir.path() / "run" / "checkpoints").size(), 1U) << "a lease stayed";
}

TEST_F(ReshardCommand, DividesTheBytesEvenly) {
  const Path folder = save(dir.path() / "c", {.ranks = 1});
  succeeded(tool({"reshard", folder, "--world", "4", "--output", dir.path() / "o"}));
  const Reader reader(dir.path() / "o");
  std::map<std::uint32_t, std::uint64_t> bytes;
  std::uint64_t pieces = 0;
  for (const TensorInfo& tensor : reader.tensors()) {
    for (const StoredPiece& piece : reader.pieces(tensor.name)) {
      bytes[piece.rank] += (piece.end - piece.begin) * size_of(tensor.dtype);
      ++pieces;
    }
  }
  const auto [least, most] = std::minmax_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_EQ(bytes.size(), 4U);
  EXPECT_LE(most->second - least->second, 32U);
  EXPECT_LE(pieces, reader.tensors().size() + 3);
}

TEST_F(ReshardCommand, RefusesDamageAndBadOutputs) {
  const Path folder = save(dir.path() / "c");
  expect_one_line(tool({"reshard", folder, "--output", dir.path() / "o"}), 2, "--world");
  expect_one_line(tool({"reshard", folder, "--world", "0", "--output", dir.path() / "o"}), 2, "--world");
  expect_one_line(tool({"reshard", folder, "--world", "2", "--output", folder / "o"}), 2, "inside");
  expect_one_line(tool({"reshard", folder, "--world", "2", "--output", dir.path() / "c"}), 2,
                  "exists already");
  flip_bit(folder / "shard-00001-of-00002.h5",
           std::filesystem::file_size(folder / "shard-00001-of-00002.h5") - 1);
  expect_one_line(tool({"reshard", folder, "--world", "2", "--output", dir.path() / "o"}), 5,
                  "checksum differs");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"c"});
}

TEST_F(ReshardCommand, NeedsLittleMemory) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer keeps freed memory";
#endif
  const Path folder =
      save(dir.path() / "c", {.ranks = 2, .tensors = {{"model/w", DType::kF32, {40, 1 << 20}}}});
  const Outcome outcome = succeeded(tool({"reshard", folder, "--world", "3", "--output", dir.path() / "o"}));
  EXPECT_LT(outcome.max_rss_bytes, 96U << 20);
}

}  // namespace
}  // namespace echelon::checkpoint
