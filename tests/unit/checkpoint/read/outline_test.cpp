// What opening a checkpoint reads of shards whose indexes are large, and when their faults are found.
#include <gtest/gtest.h>

#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/read/salvage.h"
#include "support/counting_disk.h"
#include "support/matches.h"
#include "unit/checkpoint/example.h"
#include "unit/checkpoint/zeros.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

constexpr int kRanks = 4;
constexpr std::int64_t kElements = std::int64_t{1} << 32;  ///< 4 GiB a rank: 256 KiB of checksums

std::vector<TensorInfo> two_tensors() {
  return {{"model/w", DType::kF32, {kElements}}, {"model/b", DType::kF32, {1001}}};
}

/// Elements of rank `rank`'s part of model/w, by read_many().
void read_of(const Reader& reader, std::uint64_t rank) {
  std::vector<std::byte> bytes(4096, std::byte{1});
  const std::uint64_t begin = rank * (kElements / kRanks) + 5000;
  const std::vector<Reader::Request> requests{{"model/w", begin, begin + 1024, bytes}};
  reader.read_many(requests);
  for (const std::byte byte : bytes) ASSERT_EQ(byte, std::byte{0});
}

using Outlines = InTempDir;

TEST_F(Outlines, OpeningReadsAFewKilobytesAShardAndARankTheIndexesThatItNeeds) {
  const Path folder = save_zeros(dir.path(), two_tensors(), kRanks);
  InUse<CountingDisk> disk;
  constexpr std::uint64_t kIndexBytes = std::uint64_t{512} << 10;
  constexpr std::uint64_t kOpening = kRanks * ((std::uint64_t{64} << 10) + 512);
  {
    (void)load_contents(folder);
    EXPECT_GT(disk.read(), kRanks * kIndexBytes);
  }
  const Reader reader(folder);
  EXPECT_LT(disk.read(), kOpening + (std::uint64_t{16} << 10));
  read_of(reader, 2);
  const std::uint64_t one = disk.read();
  EXPECT_GT(one, kIndexBytes);
  EXPECT_LT(one, kIndexBytes + (std::uint64_t{256} << 10));
  read_of(reader, 2);
  EXPECT_LT(disk.read(), std::uint64_t{256} << 10);
  EXPECT_EQ(reader.ranks(), kRanks);
  EXPECT_EQ(reader.pieces("model/w").size(), kRanks);
  EXPECT_EQ(reader.checksum("model/w"), crc_of_zeros(4 * kElements));
}

TEST_F(Outlines, ADamagedChecksumOfALargeIndexIsFoundByWhoReadsOfIt) {
  const Path folder = save_zeros(dir.path(), two_tensors(), kRanks);
  flip_bit(folder / "shard-00001-of-00004.h5", 100000);
  const Reader reader(folder);
  read_of(reader, 0);
  const std::string error = error_of([&] { read_of(reader, 1); });
  EXPECT_MENTIONS(error, "shard-00001-of-00004.h5", "damaged");
  EXPECT_NE(error_of([&] { (void)load_contents(folder); }), "");
}

TEST_F(Outlines, ADamagedTableOfALargeIndexIsFoundWhenItIsOpened) {
  const Path folder = save_zeros(dir.path(), two_tensors(), kRanks);
  const Path shard = folder / "shard-00001-of-00004.h5";
  for (std::uint64_t byte = kIndexHeaderBytes; byte < kIndexHeaderBytes + 2 * 128; ++byte) {
    // Where the pieces lie in the file is proved when they are read.
    const std::uint64_t field = (byte - kIndexHeaderBytes) % 128;
    if (field >= 88 && field < 96) continue;     // file offset
    if (field >= 104 && field < 112) continue;   // first checksum
    if (field >= 116 && field < 120) continue;   // unused
    if (field >= 8 + 8 && field < 72) continue;  // dimensions that a vector has not
    flip_bit(shard, byte);
    EXPECT_NE(error_of([&] { const Reader reader(folder); }), "") << "byte " << byte;
    flip_bit(shard, byte);
  }
  EXPECT_EQ(error_of([&] { const Reader reader(folder); }), "");
}

TEST_F(Outlines, ASalvagedCheckpointReadsTheShardsThatAreLeft) {
  const auto last_rank = [](const TensorInfo&, std::uint64_t n, int ranks) {
    std::vector<std::uint64_t> borders(static_cast<std::size_t>(ranks), 0);
    borders.push_back(n);
    return borders;
  };
  const Example example{.ranks = 3, .cut = last_rank};
  const Path folder = save(dir.path(), example);
  std::filesystem::remove(folder / "shard-00000-of-00003.h5");
  const Salvage found = salvage(folder, {});
  EXPECT_EQ(found.lost_shards.size(), 1U);
  const Reader reader(found.contents);
  for (const TensorInfo& tensor : found.contents.manifest.tensors) {
    std::vector<std::byte> bytes(element_count(tensor) * size_of(tensor.dtype));
    const std::vector<Reader::Request> requests{{tensor.name, 0, element_count(tensor), bytes}};
    reader.read_many(requests);
    EXPECT_EQ(bytes, content_of(tensor)) << tensor.name;
  }
}

using Prune = InTempDir;

TEST_F(Prune, ParsesEachManifestOnce) {
  for (int step = 1; step <= 3; ++step) {
    save(dir.path(), {.step = step,
                      .save_id = "0000000a",
                      .ranks = 1,
                      .tensors = {{"model/w", DType::kF32, {9}}},
                      .trainer_state = "{\"x\":\"" + std::string(1 << 20, 'x') + "\"}"});
  }
  InUse<CountingDisk> disk;
  prune(dir.path(), {.keep_last = 3}, all_in(dir.path()));
  EXPECT_GT(disk.read(), std::uint64_t{3} << 20);
  prune(dir.path(), {.keep_last = 3}, all_in(dir.path()));
  EXPECT_LT(disk.read(), (std::uint64_t{3} << 20) + (1 << 16));
}

}  // namespace
}  // namespace echelon::checkpoint
