// Saves to the memory of nodes that go wrong, or are killed.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include "checkpoint/folder/contents.h"
#include "support/faulty_disk.h"
#include "support/matches.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/memory/memory_nodes.h"
#include "unit/checkpoint/write/failing_allocations.h"

namespace echelon::checkpoint::test {
namespace {

using Steps = std::vector<std::int64_t>;

TEST(NodeLayout, EveryShardHasOneCopyAndItLiesOnTheNextNode) {
  const NodeLayout layout({"a", "b", "a", "b", "c", "a"});
  EXPECT_EQ(layout.nodes(), 3);
  EXPECT_EQ(layout.ranks_of(0), (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(layout.held_by(0), (std::vector<int>{0, 2, 4, 5}));
  EXPECT_EQ(layout.held_by(1), (std::vector<int>{0, 1, 2, 3, 5}));
  EXPECT_EQ(layout.held_by(2), (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(layout.copied_by(1), (std::vector<int>{0, 5}));
  EXPECT_EQ(layout.copied_by(3), std::vector<int>{2});
  EXPECT_EQ(NodeLayout({"a", "a"}).held_by(0), (std::vector<int>{0, 1}));
}

TEST(MemorySave, OlderSavesGoWhenTheNextIsInPlace) {
  SavedNodes nodes({"a", "b"});
  ASSERT_EQ(nodes.save(20, {nodes.step(0, 10).filename().string()}), Hosts{});
  EXPECT_EQ(nodes.whole_steps(), (Steps{20, 10}));
  ASSERT_EQ(nodes.save(30, {nodes.step(0, 20).filename().string()}), Hosts{});
  EXPECT_EQ(nodes.whole_steps(), (Steps{30, 20}));
}

TEST(MemorySave, APartnerThatIsGoneFailsTheSaveAndLeavesTheOneBefore) {
  SavedNodes nodes({"a", "b", "c"});
  nodes.silence(1);
  const Hosts errors = nodes.save(20, {nodes.step(0, 10).filename().string()});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_MENTIONS(errors[0], "no copy of rank 1's shard (b): cannot connect");
  // Not finished on c; but b's shard is still there, and a's copy is on b: nothing is lost while b lives.
  EXPECT_EQ(nodes.whole_steps(), (Steps{20, 10}));
  EXPECT_FALSE(std::filesystem::exists(nodes.step(2, 20) / kNodeFile));
}

TEST(MemorySave, AShardThatChangesOnItsWayIsNotKept) {
  SavedNodes nodes({"a", "b"});
  const Path copy = nodes.shard(1, 10, 0);
  std::filesystem::remove(copy);
  flip_bit(nodes.shard(0, 10, 0), std::filesystem::file_size(nodes.shard(0, 10, 0)) - 1);
  const WantedShard wanted{.step = 10, .save_id = TinyRun::save_id(10), .rank = 0, .ranks = 2};
  const std::string name = shard_file_name(0, 2);
  const Manifest manifest{.save_id = TinyRun::save_id(10),
                          .shards = {describe_shard(nodes.step(0, 10), name), {}}};
  const std::uint32_t told = blocks_crc(load_shard_index(nodes.step(0, 10), manifest, 0));
  const auto fetched = [&](std::uint32_t crc) {
    return error_of([&] { fetch_shard(nodes.step(1, 10), nodes.card_of(0), kSecret, wanted, crc, {}); });
  };
  EXPECT_MENTIONS(fetched(told), "checksum differs");
  EXPECT_MENTIONS(fetched(told + 1), "expected rank 0 of 2, save 00000010, with the checksums that");
  EXPECT_FALSE(std::filesystem::exists(copy));
  EXPECT_FALSE(std::filesystem::exists(copy.string() + ".part"));
}

TEST(MemorySave, StrangersGetNothing) {
  SavedNodes nodes({"a", "b"});
  const auto fetched = [&](const Secret& secret, WantedShard wanted) {
    std::size_t bytes = 0;
    const std::string error = error_of(
        [&] { fetch(nodes.card_of(0), secret, wanted, {}, [&](auto part) { bytes += part.size(); }); });
    EXPECT_EQ(bytes, 0U);
    return error;
  };
  const WantedShard wanted{.step = 10, .save_id = TinyRun::save_id(10), .rank = 0, .ranks = 2};
  Secret other = kSecret;
  other[15] = 'x';
  EXPECT_MENTIONS(fetched(other, wanted), "does not know the secret of this run");
  WantedShard strange = wanted;
  strange.save_id = "../../..";
  EXPECT_MENTIONS(fetched(kSecret, strange), "makes no sense");
  strange = wanted;
  strange.rank = 7;
  EXPECT_MENTIONS(fetched(kSecret, strange), "makes no sense");
  strange = wanted;
  strange.step = 11;
  EXPECT_MENTIONS(fetched(kSecret, strange), "there is no '");
}

TEST(MemorySave, AFullMemoryFailsTheSaveAndLeavesTheOneBefore) {
  const echelon::test::TempDir dir;
  // Before the nodes, whose servers may still be closing what they have sent when a save is over.
  echelon::test::FullDisk first("shard-00000");
  echelon::test::FullDisk second("shard-00001");
  MemoryNodes nodes(dir.path(), {"a", "b"});
  ASSERT_EQ(nodes.save(10), Hosts{});
  for (fs::Disk* full : std::initializer_list<fs::Disk*>{&first, &second}) {
    const fs::DiskInUse in_use(*full);
    const Hosts errors = nodes.save(20);
    ASSERT_FALSE(errors.empty());
    EXPECT_MENTIONS(errors[0], "No space left on device");
    EXPECT_EQ(nodes.whole_steps(), Steps{10});
    for (int node = 0; node < 2; ++node) std::filesystem::remove_all(nodes.step(node, 20));
  }
}

// As where the run ends because it had no memory left.
TEST(MemorySave, IsGivenUpWithoutMemory) {
  const echelon::test::TempDir dir;
  auto save =
      std::make_unique<NodeSave>(NodeSavePlan{.folder = dir.path(), .copies = {{.rank = 1, .host = "b"}}});
  while (save->status().state == NodeSave::State::kRunning)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_MENTIONS(save->status().error, "that rank could not begin");
  bool struck = false;
  {
    const echelon::test::FailingAllocations failing(1, std::int64_t{1} << 40);
    save.reset();
    struck = failing.struck();
  }
  EXPECT_FALSE(struck);
}

/// A process that is killed at `point` while it saves step 20.
void die_at(const std::string& point, const Path& root) {
  ::setenv("ECHELON_KILL_POINT", point.c_str(), 1);
  MemoryNodes nodes(root, {"a", "b"});
  (void)nodes.save(20, {step_folder_name(10, TinyRun::save_id(10))});
}

/// A folder that a death test finds again in the child process, which runs the test from its beginning.
class SharedFolder {
 public:
  SharedFolder() {
    if (std::getenv(kName) != nullptr) return;
    own_.emplace();
    ::setenv(kName, own_->path().c_str(), 1);
  }
  ~SharedFolder() {
    if (own_) ::unsetenv(kName);
  }
  [[nodiscard]] Path path() const { return std::getenv(kName); }

 private:
  static constexpr const char* kName = "ECHELON_TEST_MEMORY_KILL";
  std::optional<echelon::test::TempDir> own_;
};

class MemoryKill : public testing::TestWithParam<const char*> {};

TEST_P(MemoryKill, LeavesAWholeSave) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const SharedFolder folder;
  const Path root = folder.path();
  // In a process of its own, because kill points are read once.
  EXPECT_EXIT(
      {
        MemoryNodes nodes(root, {"a", "b"});
        std::_Exit(nodes.save(10).empty() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(die_at(GetParam(), root), testing::KilledBySignal(SIGKILL), "");
  MemoryNodes after(root, {"a", "b"});
  ASSERT_FALSE(after.whole_steps().empty());
  for (const MemoryCandidate& candidate : after.choice().whole) {
    for (int node = 0; node < 2; ++node) EXPECT_EQ(after.wrong_on(node, candidate), "");
  }
  // Saves go on from there.
  EXPECT_EQ(after.save(30), Hosts{});
  EXPECT_EQ(after.whole_steps().front(), 30);
}

INSTANTIATE_TEST_SUITE_P(AtEveryPoint, MemoryKill,
                         testing::Values("folder", "staged", "window", "index", "named", "memory_part",
                                         "memory_copied", "memory_note", "memory_whole"));

}  // namespace
}  // namespace echelon::checkpoint::test
