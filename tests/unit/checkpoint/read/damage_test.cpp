#include <gtest/gtest.h>
#include <sys/stat.h>

#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/shard_index.h"
#include "checkpoint/read/verify.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

constexpr const char* kShard0 = "shard-00000-of-00002.h5";
constexpr const char* kShard1 = "shard-00001-of-00002.h5";

/// Every tensor read in whole; the first error.
std::string read_error(const Path& folder) {
  return error_of([&] {
    const Reader reader(folder);
    for (const TensorInfo& tensor : reader.tensors()) (void)read_all(reader, tensor);
    for (const std::string& name : reader.attachments()) (void)reader.attachment(name);
  });
}

std::vector<Damage> damages(const Path& folder, VerifyDepth depth = VerifyDepth::kDeep) {
  return verify(folder, depth, {}).damages;
}

ShardIndex index_of(const Path& folder, std::size_t rank) {
  return load_shard_index(folder, load_manifest(folder), rank);
}

using Damages = InTempDir;

TEST_F(Damages, OtherBlocksOfADamagedTensorStayReadable) {
  const Path folder = save(dir.path(), {.ranks = 1});
  const ShardIndex index = index_of(folder, 0);
  const auto big = std::find_if(index.entries.begin(), index.entries.end(),
                                [](const ShardEntry& e) { return e.tensor.name == "model/big"; });
  flip_bit(folder / "shard-00000-of-00001.h5", big->file_offset + kBlockBytes + 5);
  const auto found = damages(folder);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_LE(found[0].byte_end - found[0].byte_begin, kBlockBytes);
  EXPECT_TRUE(damages(folder, VerifyDepth::kQuick).empty());  // what it promises: no tensor bytes
  const Reader reader(folder);
  std::vector<std::byte> part(400);
  EXPECT_EQ(error_of([&] { reader.read("model/big", 0, 100, part); }), "");
  EXPECT_MENTIONS(
      error_of([&] { reader.read("model/big", kBlockBytes / 4 + 50, kBlockBytes / 4 + 150, part); }),
      "checksum differs");
  EXPECT_EQ(error_of([&] { reader.read("model/big", kBlockBytes / 2, kBlockBytes / 2 + 100, part); }), "");
}

TEST_F(Damages, DifferentMishapsHaveDifferentMessages) {
  const Path other = save(dir.path(), {.step = 7, .save_id = "0badcafe"});
  const auto tell = [&](auto&& harm) {
    const TempDir fresh;
    const Path folder = save(fresh.path());
    harm(folder);
    EXPECT_FALSE(damages(folder, VerifyDepth::kQuick).empty());
    return read_error(folder);
  };
  EXPECT_MENTIONS(tell([](const Path& f) { std::filesystem::resize_file(f / kShard1, 9000); }), kShard1,
                  "has 9000 bytes", "cut short");
  EXPECT_MENTIONS(tell([](const Path& f) { std::filesystem::resize_file(f / kShard1, 0); }), kShard1,
                  "has 0 bytes", "cut short");
  EXPECT_MENTIONS(tell([](const Path& f) {
                    std::filesystem::resize_file(f / kShard1, std::filesystem::file_size(f / kShard1) + 1);
                  }),
                  kShard1, "extended");
  EXPECT_MENTIONS(tell([](const Path& f) {
                    spill(f / kShard1, std::string(std::filesystem::file_size(f / kShard1), '\0'));
                  }),
                  kShard1, "is not a checkpoint shard");
  EXPECT_MENTIONS(tell([](const Path& f) { flip_bit(f / kShard1, 300); }), kShard1, "index (bytes 0 to");
  EXPECT_MENTIONS(tell([](const Path& f) { std::filesystem::remove(f / kShard1); }), kShard1,
                  "(rank 1) is missing");
  EXPECT_MENTIONS(tell([](const Path& f) { std::filesystem::remove(f / "recipe.yaml"); }), "recipe.yaml");
  EXPECT_MENTIONS(tell([](const Path& f) { flip_bit(f / "recipe.yaml", 3); }), "attachment");
  EXPECT_MENTIONS(tell([](const Path& f) { std::filesystem::remove(f / "MANIFEST.json"); }), "MANIFEST.json");
  EXPECT_MENTIONS(tell([](const Path& f) { std::filesystem::remove(f / "COMMIT"); }), "never committed");
  EXPECT_MENTIONS(tell([&](const Path& f) {
                    std::filesystem::copy_file(other / kShard1, f / kShard1,
                                               std::filesystem::copy_options::overwrite_existing);
                  }),
                  kShard1, "belongs to save 0badcafe", "a stale file");
}

TEST_F(Damages, SwappedShardsOfEqualSizeAreRefused) {
  const Path folder = save(dir.path(), {.tensors = {{"model/w", DType::kF32, {10}}}});
  ASSERT_EQ(std::filesystem::file_size(folder / kShard0), std::filesystem::file_size(folder / kShard1));
  std::filesystem::rename(folder / kShard0, folder / "x");
  std::filesystem::rename(folder / kShard1, folder / kShard0);
  std::filesystem::rename(folder / "x", folder / kShard1);
  EXPECT_MENTIONS(read_error(folder), "files were swapped");
}

TEST_F(Damages, ACommitOfAnotherSaveIsRefused) {
  const Path a = save(dir.path(), {.step = 1, .save_id = "00000001"});
  const Path b = save(dir.path(), {.step = 2, .save_id = "00000002"});
  std::filesystem::copy_file(a / "COMMIT", b / "COMMIT", std::filesystem::copy_options::overwrite_existing);
  EXPECT_MENTIONS(read_error(b), "MANIFEST.json' is damaged");
  std::filesystem::copy_file(a / "MANIFEST.json", b / "MANIFEST.json",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_MENTIONS(read_error(b), "renamed or swapped");
}

TEST_F(Damages, ARunFallsBackToTheCommitBeforeADamagedOne) {
  save(dir.path() / "checkpoints", {.step = 1, .save_id = "00000001"});
  const Path newest = save(dir.path() / "checkpoints", {.step = 2, .save_id = "00000002"});
  flip_bit(newest / "MANIFEST.json", 100);
  EXPECT_MENTIONS(said_by([&] { EXPECT_EQ(Reader(dir.path()).step(), 1); }), "DAMAGED", newest.string());
  const auto found = list(dir.path() / "checkpoints");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_FALSE(found[1].committed);
  EXPECT_MENTIONS(found[1].problem, "is damaged");
  EXPECT_EQ(newest_commit(dir.path()), newest);
  EXPECT_MENTIONS(read_error(newest), "is damaged");  // named directly: no way around
}

TEST_F(Damages, ARunWithOnlyDamagedCommitsIsAnErrorNotAFreshStart) {
  const Path folder = save(dir.path() / "checkpoints");
  flip_bit(folder / "COMMIT", 20);
  testing::internal::CaptureStderr();
  EXPECT_MENTIONS(error_of([&] { Reader{dir.path()}; }), "no whole checkpoint");
  (void)testing::internal::GetCapturedStderr();
}

TEST_F(Damages, ANewerFormatIsRefusedWithItsVersion) {
  const Path folder = save(dir.path());
  {
    std::string text = slurp(folder / "COMMIT");
    text.replace(text.find("\"major\": 1"), 10, "\"major\": 7");
    const TempDir copy;
    std::filesystem::copy(folder, copy.path() / "c");
    spill(copy.path() / "c" / "COMMIT", text);
    EXPECT_MENTIONS(read_error(copy.path() / "c"), "format 7.1");
  }
  std::string shard = slurp(folder / kShard0);
  shard[8] = 9;
  spill(folder / kShard0, shard);
  EXPECT_MENTIONS(read_error(folder), "format 9.1");
}

TEST(Hostile, LinksPipesAndFoldersAreNotOpened) {
  const auto tell = [&](const char* file, auto&& harm) {
    const TempDir fresh;
    const Path folder = save(fresh.path());
    std::filesystem::rename(folder / file, fresh.path() / "real");
    harm(folder / file, fresh.path() / "real");
    return read_error(folder);
  };
  const auto link = [](const Path& at, const Path& real) { std::filesystem::create_symlink(real, at); };
  const auto pipe = [](const Path& at, const Path&) { ASSERT_EQ(::mkfifo(at.c_str(), 0600), 0); };
  const auto folder = [](const Path& at, const Path&) { std::filesystem::create_directory(at); };
  for (const char* file : {kShard0, "MANIFEST.json", "COMMIT", "recipe.yaml"}) {
    EXPECT_MENTIONS(tell(file, link), "symbolic link") << file;
    EXPECT_MENTIONS(tell(file, pipe), "not a regular file") << file;
    EXPECT_MENTIONS(tell(file, folder), "not a regular file") << file;
  }
}

}  // namespace
}  // namespace echelon::checkpoint
