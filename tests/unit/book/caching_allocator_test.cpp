#include "book/caching_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <vector>

namespace echelon::book {
namespace {

constexpr std::int64_t kKiB = 1 << 10;
constexpr std::int64_t kMiB = 1 << 20;

/// Expected numbers are those of c10/core/AllocatorConfig.h and c10/cuda/CUDACachingAllocator.cpp of PyTorch
/// 2.11: kMinBlockSize 512, kSmallSize 1 MiB, kSmallBuffer 2 MiB, kMinLargeAlloc 10 MiB, kLargeBuffer 20 MiB,
/// kRoundLarge 2 MiB.
class CachingAllocatorTest : public ::testing::Test {
 protected:
  /// The distance of the next piece of `bytes` from the first one.
  std::int64_t offset(std::int64_t bytes) {
    const std::uintptr_t address = memory_.take(bytes);
    if (first_ == 0) first_ = address;
    return static_cast<std::int64_t>(address - first_);
  }
  [[nodiscard]] std::uintptr_t at(std::int64_t offset) const {
    return first_ + static_cast<std::uintptr_t>(offset);
  }
  [[nodiscard]] std::int64_t reserved() const { return memory_.reserved_bytes(); }

  CachingAllocator memory_;
  std::uintptr_t first_ = 0;
};

TEST_F(CachingAllocatorTest, RoundsTo512Bytes) {
  EXPECT_EQ(offset(1), 0);
  EXPECT_EQ(offset(512), 512);
  EXPECT_EQ(offset(513), 1024);
  EXPECT_EQ(offset(1024), 2048);
  EXPECT_EQ(offset(1025), 3072);
  EXPECT_EQ(offset(1), 4608);
  EXPECT_EQ(first_ % 512, 0U);
}

TEST_F(CachingAllocatorTest, GivesNothingForNothing) {
  EXPECT_EQ(memory_.take(0), 0U);
  EXPECT_EQ(reserved(), 0);
  memory_.give(0);
  EXPECT_EQ(memory_.live_bytes(), 0);
}

TEST_F(CachingAllocatorTest, TakesSegmentsBySizeOfTheRequest) {
  const std::map<std::int64_t, std::int64_t> segments{{1, 2 * kMiB},
                                                      {kMiB - 511, 2 * kMiB},
                                                      {kMiB, 2 * kMiB},
                                                      {kMiB + 1, 20 * kMiB},
                                                      {2 * kMiB, 20 * kMiB},
                                                      {10 * kMiB - 512, 20 * kMiB},
                                                      {10 * kMiB - 511, 10 * kMiB},  // 10 MiB once rounded
                                                      {10 * kMiB, 10 * kMiB},
                                                      {10 * kMiB + 1, 12 * kMiB},
                                                      {21 * kMiB, 22 * kMiB},
                                                      {1000 * kMiB, 1000 * kMiB},
                                                      {1000 * kMiB + 1, 1002 * kMiB}};
  for (const auto& [bytes, segment] : segments) {
    CachingAllocator fresh;
    (void)fresh.take(bytes);
    EXPECT_EQ(fresh.reserved_bytes(), segment) << bytes;
    EXPECT_EQ(fresh.live_bytes(), bytes);
  }
}

TEST_F(CachingAllocatorTest, SmallPiecesShareASegmentToItsLastByte) {
  EXPECT_EQ(offset(kMiB), 0);
  EXPECT_EQ(offset(kMiB - 512), kMiB);
  EXPECT_EQ(reserved(), 2 * kMiB);
  EXPECT_EQ(offset(1), 2 * kMiB - 512) << "512 bytes are worth splitting off";
  EXPECT_EQ(reserved(), 2 * kMiB);
  (void)offset(1);
  EXPECT_EQ(reserved(), 4 * kMiB);
}

TEST_F(CachingAllocatorTest, SmallAndLargeOnesDoNotShare) {
  EXPECT_EQ(offset(2 * kMiB), 0);  // 18 MiB of its segment are free
  (void)offset(kMiB);
  EXPECT_EQ(reserved(), 22 * kMiB);
  EXPECT_EQ(offset(kMiB + 1), 2 * kMiB);
  EXPECT_EQ(reserved(), 22 * kMiB);
}

TEST_F(CachingAllocatorTest, SplitsOffMoreThanAMebibyteOfALargePiece) {
  EXPECT_EQ(offset(9 * kMiB), 0);
  EXPECT_EQ(offset(10 * kMiB - 512), 9 * kMiB);  // leaves 1 MiB and 512 bytes
  EXPECT_EQ(offset(kMiB + 512), 19 * kMiB - 512);
  EXPECT_EQ(reserved(), 20 * kMiB);
}

TEST_F(CachingAllocatorTest, LeavesAMebibyteWithALargePiece) {
  const std::uintptr_t whole = memory_.take(12 * kMiB);
  memory_.give(whole);
  EXPECT_EQ(memory_.take(11 * kMiB), whole);
  // The last MiB of the segment was lent with it: what comes back is 12 MiB.
  memory_.give(whole);
  EXPECT_EQ(memory_.take(12 * kMiB), whole);
  EXPECT_EQ(reserved(), 12 * kMiB);
  memory_.give(whole);
  // Less than that is split: 10.5 MiB and 1.5 MiB.
  EXPECT_EQ(memory_.take(10 * kMiB + 512 * kKiB), whole);
  EXPECT_EQ(memory_.take(kMiB + 512 * kKiB), whole + (10 * kMiB + 512 * kKiB));
  EXPECT_EQ(reserved(), 12 * kMiB);
}

TEST_F(CachingAllocatorTest, TakesTheSmallestFreePieceThatFits) {
  const std::int64_t sizes[] = {4, 2, 3, 2, 2, 2};  // MiB; 5 are left
  std::int64_t expected = 0;
  for (const std::int64_t size : sizes) {
    ASSERT_EQ(offset(size * kMiB), expected * kMiB);
    expected += size;
  }
  memory_.give(at(0));          // 4 MiB
  memory_.give(at(6 * kMiB));   // 3 MiB
  memory_.give(at(11 * kMiB));  // 2 MiB
  EXPECT_EQ(offset(2 * kMiB), 11 * kMiB);
  EXPECT_EQ(offset(2 * kMiB), 6 * kMiB) << "3 MiB, of which one stays with it";
  EXPECT_EQ(offset(3 * kMiB), 0);
  EXPECT_EQ(offset(2 * kMiB), 15 * kMiB);
  EXPECT_EQ(reserved(), 20 * kMiB);
}

TEST_F(CachingAllocatorTest, OfEqualPiecesTakesTheFirst) {
  for (int i = 0; i < 5; ++i) (void)offset(512);
  memory_.give(at(3 * 512));
  memory_.give(at(512));
  EXPECT_EQ(offset(1), 512);
  EXPECT_EQ(offset(1), 3 * 512);
}

TEST_F(CachingAllocatorTest, JoinsFreeNeighbors) {
  // In every order: behind, before, on both sides.
  const std::vector<std::vector<std::int64_t>> orders{
      {0, 5, 10, 15}, {15, 10, 5, 0}, {0, 10, 15, 5}, {5, 15, 0, 10}};
  for (const std::vector<std::int64_t>& order : orders) {
    first_ = 0;
    memory_ = CachingAllocator();
    for (const std::int64_t place : {0, 5, 10, 15}) ASSERT_EQ(offset(5 * kMiB), place * kMiB);
    for (const std::int64_t place : order) memory_.give(at(place * kMiB));
    EXPECT_EQ(offset(20 * kMiB), 0);
    EXPECT_EQ(reserved(), 20 * kMiB);
  }
}

TEST_F(CachingAllocatorTest, DoesNotJoinSegments) {
  const std::uintptr_t a = memory_.take(10 * kMiB);
  const std::uintptr_t b = memory_.take(10 * kMiB);
  memory_.give(a);
  memory_.give(b);
  (void)memory_.take(20 * kMiB);
  EXPECT_EQ(reserved(), 40 * kMiB);
}

TEST_F(CachingAllocatorTest, NeverGivesSegmentsBack) {
  const std::uintptr_t large = memory_.take(100 * kMiB);
  const std::uintptr_t small = memory_.take(100);
  memory_.give(large);
  memory_.give(small);
  EXPECT_EQ(memory_.live_bytes(), 0);
  EXPECT_EQ(reserved(), 102 * kMiB);
  for (int round = 0; round < 10; ++round) {
    const std::uintptr_t again = memory_.take(100 * kMiB);
    EXPECT_EQ(again, large);
    memory_.give(again);
  }
  EXPECT_EQ(reserved(), 102 * kMiB);
}

TEST_F(CachingAllocatorTest, CountsWhatIsLiveAndItsPeak) {
  const std::uintptr_t a = memory_.take(1000);
  const std::uintptr_t b = memory_.take(50 * kMiB);
  EXPECT_EQ(memory_.live_bytes(), 1000 + 50 * kMiB);
  memory_.give(b);
  EXPECT_EQ(memory_.live_bytes(), 1000);
  (void)memory_.take(500);
  memory_.give(a);
  EXPECT_EQ(memory_.live_bytes(), 500);
  EXPECT_EQ(memory_.peak_bytes(), 1000 + 50 * kMiB);
}

TEST_F(CachingAllocatorTest, NeverLendsAByteTwice) {
  std::mt19937 random(7);
  std::map<std::uintptr_t, std::int64_t> lent;
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (!lent.empty() && random() % 100 < 48) {
      const auto piece = std::next(lent.begin(), static_cast<std::ptrdiff_t>(random() % lent.size()));
      memory_.give(piece->first);
      live -= piece->second;
      lent.erase(piece);
      continue;
    }
    const std::int64_t bytes =
        1 + static_cast<std::int64_t>(random() % (random() % 2 == 0 ? 4'000 : 30'000'000));
    const std::uintptr_t address = memory_.take(bytes);
    const auto [piece, fresh] = lent.emplace(address, bytes);
    ASSERT_TRUE(fresh);
    live += bytes;
    peak = std::max(peak, live);
    const auto ends_before = [](const auto& one, const auto& other) {
      return one->first + static_cast<std::uintptr_t>(one->second) <= other->first;
    };
    ASSERT_TRUE(std::next(piece) == lent.end() || ends_before(piece, std::next(piece)));
    ASSERT_TRUE(piece == lent.begin() || ends_before(std::prev(piece), piece));
    ASSERT_GE(reserved(), live);
  }
  EXPECT_EQ(memory_.live_bytes(), live);
  EXPECT_EQ(memory_.peak_bytes(), peak);
  const std::int64_t before = reserved();
  for (const auto& [address, bytes] : lent) memory_.give(address);
  EXPECT_EQ(memory_.live_bytes(), 0);
  EXPECT_EQ(reserved(), before);
}

}  // namespace
}  // namespace echelon::book
