#include "shard/memory/host_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "support/soft_limit.h"

namespace echelon {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(HostArena, BlocksAreWritableAlignedAndApart) {
  HostArena arena;
  std::vector<std::pair<std::byte*, std::size_t>> blocks;
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{255}, std::size_t{256}, std::size_t{257}, 3 * kMiB}) {
    auto* const block = static_cast<std::byte*>(arena.take(bytes));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % HostArena::kGrain, 0U);
    std::memset(block, static_cast<int>(blocks.size()) + 1, bytes);
    blocks.emplace_back(block, bytes);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto [block, bytes] = blocks[i];
    EXPECT_EQ(block[0], static_cast<std::byte>(i + 1));
    EXPECT_EQ(block[bytes - 1], static_cast<std::byte>(i + 1));
    EXPECT_EQ(arena.give(block), bytes);
  }
}

TEST(HostArena, TellsForeignBlocks) {
  HostArena arena;
  int foreign = 0;
  EXPECT_EQ(arena.give(&foreign), 0U);
  void* const block = arena.take(kMiB);
  EXPECT_EQ(arena.give(static_cast<std::byte*>(block) + HostArena::kGrain), 0U);
  EXPECT_EQ(arena.give(block), kMiB);
  EXPECT_EQ(arena.give(block), 0U);
}

TEST(HostArena, KnowsWhatNobodyHasUsed) {
  HostArena arena;
  void* const first = arena.take(kMiB);
  EXPECT_TRUE(arena.is_fresh(first));
  EXPECT_FALSE(arena.is_fresh(static_cast<std::byte*>(first) + HostArena::kGrain)) << "no block";
  std::memset(first, 1, kMiB);
  arena.give(first);
  EXPECT_FALSE(arena.is_fresh(first)) << "not lent";
  void* const larger = arena.take(2 * kMiB);  // begins with what was used
  EXPECT_EQ(larger, first);
  EXPECT_FALSE(arena.is_fresh(larger));
  void* const second = arena.take(kMiB);
  EXPECT_TRUE(arena.is_fresh(second));
  EXPECT_EQ(static_cast<const unsigned char*>(second)[kMiB - 1], 0);
  arena.give(second);
  EXPECT_FALSE(arena.is_fresh(arena.take(kMiB / 2)));
}

TEST(HostArena, FreeNeighborsBecomeOnePiece) {
  for (const std::vector<int>& order : {std::vector<int>{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}) {
    HostArena arena;
    void* blocks[] = {arena.take(kMiB), arena.take(2 * kMiB), arena.take(kMiB)};
    void* const wall = arena.take(kMiB);
    for (const int i : order) arena.give(blocks[i]);
    EXPECT_EQ(arena.take(4 * kMiB), blocks[0]);
    EXPECT_EQ(arena.reserved_bytes(), 5 * kMiB);
    arena.give(wall);
  }
}

TEST(HostArena, CutsTheSmallestPieceThatFits) {
  HostArena arena;
  void* const large = arena.take(8 * kMiB);
  void* const first_wall = arena.take(kMiB);
  void* const small = arena.take(2 * kMiB);
  void* const second_wall = arena.take(kMiB);
  arena.give(large);
  arena.give(small);
  EXPECT_EQ(arena.take(kMiB), small);
  EXPECT_EQ(arena.take(kMiB), static_cast<std::byte*>(small) + kMiB);
  EXPECT_EQ(arena.take(8 * kMiB), large);
  arena.give(first_wall);
  arena.give(second_wall);
}

TEST(HostArena, GrowsFromTheFreePieceAtItsEnd) {
  HostArena arena;
  void* const first = arena.take(kMiB);
  void* const second = arena.take(4 * kMiB);
  arena.give(second);
  EXPECT_EQ(arena.take(6 * kMiB), second);
  EXPECT_EQ(arena.reserved_bytes(), 7 * kMiB);
  arena.give(first);
}

TEST(HostArena, RepeatedStepsNeedNoMoreThanTheFirst) {
  HostArena arena;
  std::mt19937 random(7);
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 200; ++i) sizes.push_back(HostArena::kGrain + random() % (4 * kMiB));
  std::size_t after_first = 0;
  for (int step = 0; step < 5; ++step) {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      blocks.push_back(arena.take(sizes[i]));
      if (i % 3 == 2) {
        arena.give(blocks[i / 2]);
        blocks[i / 2] = nullptr;
      }
    }
    for (void* const block : blocks) {
      if (block != nullptr) arena.give(block);
    }
    if (step == 0) after_first = arena.reserved_bytes();
    EXPECT_EQ(arena.reserved_bytes(), after_first);
  }
}

TEST(HostArena, ServesThreadsAtTheSameTime) {
  HostArena arena;
  const auto work = [&arena](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<unsigned char*, std::size_t>> mine;
    for (int i = 0; i < 2000; ++i) {
      const std::size_t bytes = 1 + random() % 5000;
      auto* const block = static_cast<unsigned char*>(arena.take(bytes));
      std::memset(block, static_cast<int>(seed), bytes);
      mine.emplace_back(block, bytes);
      if (i % 2 == 1) {
        const std::size_t at = random() % mine.size();
        EXPECT_TRUE(std::all_of(mine[at].first, mine[at].first + mine[at].second,
                                [seed](unsigned char c) { return c == seed; }));
        EXPECT_EQ(arena.give(mine[at].first), mine[at].second);
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    for (const auto& [block, bytes] : mine) EXPECT_EQ(arena.give(block), bytes);
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  const std::size_t reserved = arena.reserved_bytes();
  void* const whole = arena.take(reserved);  // all of it is one free piece again
  EXPECT_EQ(arena.reserved_bytes(), reserved);
  arena.give(whole);
}

TEST(HostArena, MakesDoWithLittleAddressSpace) {
  const test::SoftLimit tight(RLIMIT_AS, std::size_t{64} << 30);
  HostArena arena;
  void* const block = arena.take(3 * kMiB);
  void* const too_large = arena.take(std::size_t{1} << 40);
  ASSERT_NE(block, nullptr);
  std::memset(block, 1, 3 * kMiB);
  EXPECT_EQ(too_large, nullptr);
  EXPECT_EQ(arena.give(block), 3 * kMiB);
}

TEST(HostArena, TrimReturnsWhatIsBehindTheLastBlock) {
  HostArena arena;
  void* const kept = arena.take(kMiB);
  void* const hole = arena.take(kMiB);
  void* const border = arena.take(kMiB);
  void* const last = arena.take(kMiB);
  std::memset(last, 1, kMiB);
  (void)arena.give(hole);
  (void)arena.give(last);
  EXPECT_EQ(arena.reserved_bytes(), 4 * kMiB);
  arena.trim();
  EXPECT_EQ(arena.reserved_bytes(), 3 * kMiB);  // the hole stays
  void* const larger = arena.take(2 * kMiB);
  EXPECT_EQ(larger, last);
  EXPECT_TRUE(arena.is_fresh(larger));
  const auto* bytes = static_cast<const unsigned char*>(larger);
  EXPECT_TRUE(std::all_of(bytes, bytes + 2 * kMiB, [](unsigned char b) { return b == 0; }));
  for (void* block : {kept, border, larger}) EXPECT_EQ(arena.give(block), block == larger ? 2 * kMiB : kMiB);
  arena.trim();
  EXPECT_EQ(arena.reserved_bytes(), 0U);
}

}  // namespace
}  // namespace echelon
