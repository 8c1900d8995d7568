// What is left in the memory of nodes after some of them are gone, and what can be read from it.
#include <gtest/gtest.h>

#include "support/matches.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/memory/memory_nodes.h"

namespace echelon::checkpoint::test {
namespace {

using Steps = std::vector<std::int64_t>;

const Hosts kThree{"a", "a", "b", "b", "c", "c"};

TEST(MemoryRestore, EveryNodeReadsTheWholeStateFromItsOwnMemoryAndThatOfOthers) {
  SavedNodes nodes(kThree);
  ASSERT_EQ(nodes.whole_steps(), Steps{10});
  for (int node = 0; node < 3; ++node) EXPECT_EQ(nodes.wrong_on(node, nodes.choice().whole[0]), "");
}

TEST(MemoryRestore, ASpareNodeTakesTheStateOfADeadOneFromItsPartner) {
  const echelon::test::TempDir dir;
  for (const std::string lost : {"a", "b", "c"}) {
    save_on(dir.path() / lost, kThree);
    Hosts hosts = kThree;
    for (std::string& host : hosts) host = host == lost ? "spare" : host;
    const MemoryNodes after(dir.path() / lost, hosts);
    ASSERT_EQ(after.whole_steps(), Steps{10});
    for (int node = 0; node < 3; ++node)
      EXPECT_EQ(after.wrong_on(node, after.choice().whole[0]), "") << lost << node;
  }
}

TEST(MemoryRestore, ADifferentNumberOfRanksAndAnotherOrderOfNodesReadTheSame) {
  const echelon::test::TempDir dir;
  save_on(dir.path(), kThree);
  for (const Hosts& hosts : {Hosts{"c", "a", "b"}, Hosts{"b", "b", "b", "a", "a", "a", "a"}}) {
    const MemoryNodes after(dir.path(), hosts);
    ASSERT_EQ(after.whole_steps(), Steps{10});
    EXPECT_EQ(after.wrong_on(0, after.choice().whole[0]), "");
  }
}

TEST(MemoryRestore, TwoNeighborsThatAreGoneTakeAShardWithThem) {
  const echelon::test::TempDir dir;
  save_on(dir.path(), kThree);
  const MemoryNodes after(dir.path(), {"a", "a", "x", "x", "y", "y"});
  const MemoryChoice choice = after.choice();
  EXPECT_TRUE(choice.whole.empty());
  ASSERT_EQ(choice.refused.size(), 1U);
  EXPECT_EQ(choice.refused[0],
            "step 10 (save 00000010) in the memory of a: shards 2, 3 of 6 are on no node of this job");
}

TEST(MemoryRestore, ANodeThatComesBackWithOldMemoryIsRefusedByItsSaveId) {
  const echelon::test::TempDir dir;
  save_on(dir.path(), kThree);
  std::filesystem::rename(dir.path() / "c", dir.path() / "gone");
  {
    MemoryNodes without(dir.path(), {"a", "a", "b", "b", "d", "d"});
    ASSERT_EQ(without.save(20), Hosts{});
  }
  std::filesystem::rename(dir.path() / "gone", dir.path() / "c");
  const MemoryNodes after(dir.path(), {"a", "a", "b", "b", "c", "c"});
  const MemoryChoice choice = after.choice();
  ASSERT_EQ(choice.whole.size(), 1U);
  EXPECT_EQ(choice.whole[0].step, 20);
  ASSERT_EQ(choice.refused.size(), 1U);
  EXPECT_MENTIONS(choice.refused[0], "step 10 (save 00000010) in the memory of c: shards 0, 1");
  for (int node = 0; node < 3; ++node) EXPECT_EQ(after.wrong_on(node, choice.whole[0]), "");
}

TEST(MemoryRestore, ADamagedShardIsReplacedByItsCopyAndIsRefusedWhereBothAreDamaged) {
  SavedNodes nodes(kThree);
  const std::uint64_t last = std::filesystem::file_size(nodes.shard(0, 10, 1)) - 1;
  flip_bit(nodes.shard(0, 10, 1), last);  // its own
  ASSERT_EQ(nodes.whole_steps(), Steps{10});
  testing::internal::CaptureStderr();
  for (int node = 0; node < 3; ++node) EXPECT_EQ(nodes.wrong_on(node, nodes.choice().whole[0]), "");
  EXPECT_MENTIONS(testing::internal::GetCapturedStderr(), "checksum differs");
  flip_bit(nodes.shard(1, 10, 1), last);  // and the copy
  testing::internal::CaptureStderr();
  for (int node = 0; node < 3; ++node) {
    const std::string wrong = nodes.wrong_on(node, nodes.choice().whole[0]);
    EXPECT_MENTIONS(wrong, "shard 1 of step 10 is sound in no node's memory");
  }
  (void)testing::internal::GetCapturedStderr();
}

TEST(MemoryRestore, AShardThatIsCutShortSwappedOrMissingDoesNotCount) {
  SavedNodes nodes({"a", "b"});
  std::filesystem::resize_file(nodes.shard(0, 10, 0), std::filesystem::file_size(nodes.shard(0, 10, 0)) - 1);
  std::filesystem::copy_file(nodes.shard(1, 10, 0), nodes.shard(1, 10, 1),
                             std::filesystem::copy_options::overwrite_existing);
  MemoryChoice choice = nodes.choice();
  ASSERT_EQ(choice.whole.size(), 1U);
  EXPECT_EQ(choice.whole[0].shards[0].nodes, std::vector<int>{1});
  EXPECT_EQ(choice.whole[0].shards[1].nodes, std::vector<int>{0});
  for (int node = 0; node < 2; ++node) EXPECT_EQ(nodes.wrong_on(node, choice.whole[0]), "");
  std::filesystem::remove(nodes.shard(1, 10, 0));
  EXPECT_EQ(nodes.whole_steps(), Steps{});
}

TEST(MemoryRestore, EveryFlippedBitOfTheNotesIsFound) {
  SavedNodes nodes({"a"});
  for (const std::string_view file : {kNodeFile, kInfoFile}) {
    const Path path = nodes.step(0, 10) / file;
    for (std::uint64_t byte = 0; byte < std::filesystem::file_size(path); ++byte) {
      const int bit = static_cast<int>(byte % 8);
      flip_bit(path, byte, bit);
      EXPECT_EQ(nodes.whole_steps(), Steps{}) << file << " byte " << byte;
      flip_bit(path, byte, bit);
    }
    const std::string whole = slurp(path);
    spill(path, whole.substr(0, whole.size() / 2));
    EXPECT_EQ(nodes.whole_steps(), Steps{}) << file << " torn";
    spill(path, whole);
  }
  EXPECT_EQ(nodes.whole_steps(), Steps{10});
}

}  // namespace
}  // namespace echelon::checkpoint::test
