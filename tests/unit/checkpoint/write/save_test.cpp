// What a save refuses, what it leaves behind when it fails, and what prune removes.
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/str.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/names.h"
#include "checkpoint/read/verify.h"
#include "support/soft_limit.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

/// Shards cut as `cut` says (ranks + 1 borders of a tensor of 100), then commit's error.
std::string commit_error(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& parts) {
  const TempDir dir;
  const TensorInfo tensor{"model/w", DType::kF32, {10, 10}};
  const auto content = content_of(tensor);
  const Path folder = dir.path() / step_folder_name(1, "a1b2c3d4");
  std::filesystem::create_directories(folder);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const auto [begin, end] = parts[rank];
    const std::vector<Slice> slices{
        {tensor, begin, end, std::span(content).subspan(begin * 4, (end - begin) * 4)}};
    write_shard(folder, static_cast<int>(rank), static_cast<int>(parts.size()), "a1b2c3d4", slices);
  }
  const std::string error = error_of([&] {
    commit(folder, {.step = 1,
                    .save_id = "a1b2c3d4",
                    .ranks = static_cast<int>(parts.size()),
                    .tensors = {tensor},
                    .trainer_state = "{}"});
  });
  EXPECT_EQ(std::filesystem::exists(folder / "COMMIT"), error.empty());
  EXPECT_EQ(std::filesystem::exists(folder / "MANIFEST.json"), error.empty());
  return error;
}

TEST(Commit, ProvesThatEveryElementIsStoredExactlyOnce) {
  EXPECT_EQ(commit_error({{0, 50}, {50, 100}}), "");
  EXPECT_EQ(commit_error({{50, 100}, {0, 50}}), "");
  EXPECT_EQ(commit_error({{0, 100}, {100, 100}}), "");
  EXPECT_MENTIONS(commit_error({{0, 50}, {51, 100}}),
                  "'model/w': elements 50 to 50 of 100 are stored by no rank");
  EXPECT_MENTIONS(commit_error({{0, 50}, {50, 99}}), "elements 99 to 99 of 100");
  EXPECT_MENTIONS(commit_error({{1, 50}, {50, 100}}), "elements 0 to 0 of 100");
  EXPECT_MENTIONS(commit_error({{0, 0}, {0, 0}}), "elements 0 to 99 of 100");
  EXPECT_MENTIONS(commit_error({{0, 51}, {50, 100}}), "element 50 is stored twice, by rank 0 and by rank 1");
  EXPECT_MENTIONS(commit_error({{0, 100}, {20, 30}}), "element 20 is stored twice");
  EXPECT_MENTIONS(commit_error({{0, 100}, {0, 100}}), "element 0 is stored twice");
}

TEST(Commit, RefusesWhatDoesNotBelongTogether) {
  const TempDir dir;
  const Example example;
  const Path folder = write_shards(dir.path(), example);
  const auto error = [&](auto&& change) {
    CommitInfo info = commit_info(example);
    change(info);
    const std::string text = error_of([&] { commit(folder, info); });
    EXPECT_FALSE(std::filesystem::exists(folder / "COMMIT"));
    return text;
  };
  using Info = CommitInfo;
  EXPECT_MENTIONS(error([](Info& i) {
                    i.tensors.push_back({"model/extra", DType::kF32, {2}});
                  }),
                  "model/extra");
  EXPECT_MENTIONS(error([](Info& i) { i.tensors.erase(i.tensors.begin()); }),
                  "which the checkpoint does not have");
  EXPECT_MENTIONS(error([](Info& i) { i.tensors[2].dtype = DType::kI32; }),
                  "as fp32 [33], expected int32 [33]");
  EXPECT_MENTIONS(error([](Info& i) { i.tensors.push_back(i.tensors[0]); }), "listed twice");
  EXPECT_MENTIONS(error([](Info& i) { i.trainer_state = "[]"; }), "JSON object");
  EXPECT_MENTIONS(error([](Info& i) { i.trainer_state = "{\"a\":1,\"a\":2}"; }), "twice");
  EXPECT_MENTIONS(error([](Info& i) { i.attachments["../x"] = ""; }), "attachment name");
  EXPECT_MENTIONS(error([](Info& i) { i.attachments["COMMIT"] = ""; }), "reserved");
  EXPECT_MENTIONS(error([](Info& i) { i.step = 3; }), "belongs in a folder");
  EXPECT_NE(error([](Info& i) { i.ranks = 1; }), "");
  EXPECT_NE(error([](Info& i) { i.ranks = 3; }), "");
  const Path second = folder / shard_file_name(1, 2);
  const Path other = write_shards(dir.path(), {.step = 1200, .save_id = "deadbeef"});
  std::filesystem::rename(second, dir.path() / "kept");
  std::filesystem::copy_file(other / shard_file_name(1, 2), second);
  EXPECT_MENTIONS(error([](Info&) {}), "a stale file");
  std::filesystem::remove(second);
  std::filesystem::copy_file(folder / shard_file_name(0, 2), second);
  EXPECT_MENTIONS(error([](Info&) {}), "files were swapped");
  std::filesystem::remove(second);
  EXPECT_MENTIONS(error([](Info&) {}), "file system that all nodes share");
}

using ShardFile = InTempDir;

TEST_F(ShardFile, RefusesSlicesThatAreNotWhatTheySay) {
  const std::vector<std::byte> bytes(40);
  const auto error = [&](std::vector<Slice> slices) {
    const std::string text = error_of([&] { write_shard(dir.path(), 0, 1, "a1b2c3d4", slices); });
    EXPECT_TRUE(names_in(dir.path()).empty());
    return text;
  };
  const TensorInfo w{"model/w", DType::kF32, {10}};
  EXPECT_MENTIONS(error({{w, 0, 11, bytes}}), "has no elements 0 to 11");
  EXPECT_MENTIONS(error({{w, 2, 1, {}}}), "has no elements 2 to 1");
  EXPECT_MENTIONS(error({{w, 0, 9, bytes}}), "need 36 bytes, got 40");
  EXPECT_MENTIONS(error({{w, 0, 10, bytes}, {w, 0, 0, {}}}), "listed twice");
  EXPECT_MENTIONS(error({{w, 0, 10, bytes}, {{"model/w/x", DType::kF32, {10}}, 0, 10, bytes}}),
                  "a tensor and a group");
  EXPECT_NE(error({{{"model/../w", DType::kF32, {10}}, 0, 10, bytes}}), "");
  EXPECT_NE(error({{{"", DType::kF32, {10}}, 0, 10, bytes}}), "");
  EXPECT_NE(error({{{std::string(300, 'x'), DType::kF32, {10}}, 0, 10, bytes}}), "");
  EXPECT_NE(error({{{"w", DType::kF32, {1LL << 39, 1LL << 39}}, 0, 10, bytes}}), "");
  EXPECT_NE(error_of([&] { write_shard(dir.path(), 1, 1, "a1b2c3d4", {}); }), "");
  EXPECT_NE(error_of([&] { write_shard(dir.path(), 0, 1, "nonsense", {}); }), "");
}

TEST_F(ShardFile, ThrowsWhatASliceThrows) {
  struct Interruption {};
  const TensorInfo tensor{"w", DType::kF32, {3'000'000}};
  const auto interrupt = [](std::uint64_t at, std::span<std::byte>) {
    if (at > 0) throw Interruption();
  };
  EXPECT_THROW(
      write_shard(dir.path(), 0, 1, "a1b2c3d4", {{.tensor = tensor, .end = 3'000'000, .read = interrupt}}),
      Interruption);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST_F(ShardFile, NeverOverwritesAFile) {
  spill(dir.path() / "shard-00000-of-00001.h5", "precious");
  EXPECT_MENTIONS(error_of([&] { write_shard(dir.path(), 0, 1, "a1b2c3d4", {}); }), "File exists");
  EXPECT_EQ(slurp(dir.path() / "shard-00000-of-00001.h5"), "precious");
}

TEST_F(ShardFile, AMissingFolderIsNamed) {
  const std::string error = error_of([&] { write_shard(dir.path() / "absent", 0, 1, "a1b2c3d4", {}); });
  EXPECT_MENTIONS(error, "rank 0", "absent", "No such file or directory");
}

TEST_F(ShardFile, AFolderThatCannotBeWrittenIsNamed) {
  if (::geteuid() == 0) {
    const std::string error = error_of([&] { write_shard("/proc/self", 0, 1, "a1b2c3d4", {}); });
    EXPECT_MENTIONS(error, "/proc/self");
    return;
  }
  std::filesystem::permissions(dir.path(),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const std::string error = error_of([&] { write_shard(dir.path(), 0, 1, "a1b2c3d4", {}); });
  std::filesystem::permissions(dir.path(), std::filesystem::perms::owner_all);
  EXPECT_MENTIONS(error, "Permission denied");
}

TEST_F(ShardFile, AFileSizeLimitIsAnErrorNotASignal) {
  const SoftLimit tight(RLIMIT_FSIZE, 100000);
  EXPECT_MENTIONS(error_of([&] { write_shards(dir.path(), {}); }), "ulimit -f");
  EXPECT_TRUE(names_in(dir.path() / "step-000001200.a1b2c3d4").empty());
}

using Prune = InTempDir;

TEST_F(Prune, KeepsTheNewestAndRemovesLeftoversBeforeThem) {
  for (int step = 1; step <= 5; ++step) save(dir.path(), {.step = step, .save_id = str("0000000", step)});
  write_shards(dir.path(), {.step = 3, .save_id = "deadbeef"});
  write_shards(dir.path(), {.step = 9, .save_id = "deadbeef"});  // may still be being written
  std::filesystem::create_directory(dir.path() / ".trash-step-000000001.00000000");
  spill(dir.path() / "notes.txt", "mine");
  std::filesystem::create_directory(dir.path() / "step-mine");
  prune(dir.path(), {.keep_last = 2}, all_in(dir.path()));
  EXPECT_EQ(names_in(dir.path()),
            (std::vector<std::string>{"notes.txt", "step-000000004.00000004", "step-000000005.00000005",
                                      "step-000000009.deadbeef", "step-mine"}));
  prune(dir.path(), {.keep_last = 0}, all_in(dir.path()));
  EXPECT_EQ(list(dir.path()).size(), 3U);
  prune(dir.path() / "absent", {.keep_last = 1}, all_in(dir.path() / "absent"));
}

TEST_F(Prune, DoesNotCountADamagedCommitAsOneToKeep) {
  for (int step = 0; step <= 4; ++step) save(dir.path(), {.step = step, .save_id = str("0000000", step)});
  std::filesystem::remove(dir.path() / "step-000000004.00000004" / "shard-00001-of-00002.h5");
  flip_bit(dir.path() / "step-000000003.00000003" / "COMMIT", 30);
  prune(dir.path(), {.keep_last = 1}, all_in(dir.path()));
  EXPECT_EQ(names_in(dir.path()),
            (std::vector<std::string>{"step-000000001.00000001", "step-000000002.00000002",
                                      "step-000000003.00000003", "step-000000004.00000004"}));
  EXPECT_TRUE(verify(dir.path() / "step-000000002.00000002", VerifyDepth::kDeep, {}).damages.empty());
}

}  // namespace
}  // namespace echelon::checkpoint
