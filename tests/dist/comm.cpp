#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "comm/communicator.h"
#include "comm/mpi/mpi_world.h"
#include "dist/ranks.h"
#include "support/matches.h"

// Each rank computes for itself what the others contributed, so the expected values need no communication.
namespace echelon {
namespace {

using testing::ranks;
using testing::sum_at;
using testing::value_at;

const std::vector<std::size_t> kCounts = {0, 1, 2, 7, 511, 512, 513, 1023, 4097, 65537, 300001, 1048576 + 3};

class Comm : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { world_ = make_mpi_communicator(*ranks().job, 30.0); }
  static void TearDownTestSuite() { world_.reset(); }
  static Communicator& world() { return *world_; }

 private:
  static inline std::unique_ptr<Communicator> world_;
};

TEST_F(Comm, KnowsRankAndSizeOfTheJob) {
  EXPECT_EQ(world().rank(), ranks().info().rank);
  EXPECT_EQ(world().size(), ranks().info().size);
}

TEST_F(Comm, AllGatherFillsEverySlotOfEveryType) {
  for (const DType type : {DType::kBF16, DType::kF32, DType::kF64, DType::kU8}) {
    const std::size_t element = size_of(type);
    for (const std::size_t count : kCounts) {
      const std::size_t slot = count * element;
      std::vector<std::uint8_t> buffer(slot * static_cast<std::size_t>(world().size()) + 1, 0xEE);
      const auto byte_at = [&](int rank, std::size_t i) {
        return static_cast<std::uint8_t>(i * 31 + i / 251 + static_cast<std::size_t>(rank) * 101);
      };
      for (std::size_t i = 0; i < slot; ++i)
        buffer[slot * static_cast<std::size_t>(world().rank()) + i] = byte_at(world().rank(), i);
      world().all_gather(buffer.data(), count, type, "weights").wait();
      for (int rank = 0; rank < world().size(); ++rank) {
        for (std::size_t i = 0; i < slot; ++i) {
          ASSERT_EQ(buffer[slot * static_cast<std::size_t>(rank) + i], byte_at(rank, i))
              << "slot " << rank << " byte " << i << " of " << slot;
        }
      }
      EXPECT_EQ(buffer.back(), 0xEE);
    }
  }
}

template <class T>
void check_reduce_scatter(Communicator& world, DType type, std::size_t count, bool accumulate,
                          T (*make)(float)) {
  const auto size = static_cast<std::size_t>(world.size());
  std::vector<T> input(count * size);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = make(value_at(world.rank(), i));
  std::vector<float> output(count + 1, 3.0F);
  world.reduce_scatter(input.data(), type, output.data(), count, 0.5F, accumulate, "gradients").wait();
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = sum_at(static_cast<std::size_t>(world.rank()) * count + i);
    ASSERT_EQ(output[i], (accumulate ? 3.0F : 0.0F) + 0.5F * sum) << i << " of " << count;
  }
  EXPECT_EQ(output.back(), 3.0F);
}

TEST_F(Comm, ReduceScatterSumsScalesAndAccumulates) {
  for (const std::size_t count : kCounts) {
    for (const bool accumulate : {false, true}) {
      check_reduce_scatter<float>(world(), DType::kF32, count, accumulate, [](float value) { return value; });
      check_reduce_scatter<std::uint16_t>(world(), DType::kBF16, count, accumulate,
                                          [](float value) { return float_to_bf16(value); });
    }
  }
}

TEST_F(Comm, ReduceScatterSumsInRankOrder) {
  // 1e8 absorbs small numbers, so any other order gives other bits.
  const std::size_t count = 200003;
  const auto part = [](int rank, std::size_t i) {
    const float small = 1.0F + 0.37F * static_cast<float>(i % 11) + static_cast<float>(rank);
    return static_cast<std::size_t>(rank) == i % 4 ? (i % 8 < 4 ? 1e8F : -1e8F) : small;
  };
  std::vector<float> input(count * static_cast<std::size_t>(world().size()));
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = part(world().rank(), i);
  std::vector<float> output(count);
  world().reduce_scatter(input.data(), DType::kF32, output.data(), count, 1.0F, false, "order").wait();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = static_cast<std::size_t>(world().rank()) * count + i;
    float sum = part(0, at);
    for (int rank = 1; rank < world().size(); ++rank) sum += part(rank, at);
    ASSERT_EQ(output[i], sum) << i;
  }
}

template <class T>
void check_all_reduce(Communicator& world, DType type, ReduceOp op, std::size_t count) {
  const auto part = [](int rank, std::size_t i) { return static_cast<T>(4.0F * value_at(rank, i)); };
  std::vector<T> data(count + 1, T{99});
  for (std::size_t i = 0; i < count; ++i) data[i] = part(world.rank(), i);
  world.all_reduce(data.data(), count, type, op, "norm").wait();
  for (std::size_t i = 0; i < count; ++i) {
    T expected = part(0, i);
    for (int rank = 1; rank < world.size(); ++rank) {
      const T other = part(rank, i);
      expected = op == ReduceOp::kSum   ? expected + other
                 : op == ReduceOp::kMax ? std::max(expected, other)
                                        : std::min(expected, other);
    }
    ASSERT_EQ(data[i], expected) << i << " of " << count;
  }
  EXPECT_EQ(data.back(), T{99});
}

TEST_F(Comm, AllReduceWorksForEveryTypeOperationAndSize) {
  for (const std::size_t count : kCounts) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      check_all_reduce<float>(world(), DType::kF32, op, count);
      check_all_reduce<double>(world(), DType::kF64, op, count);
      check_all_reduce<std::int64_t>(world(), DType::kI64, op, count);
    }
  }
}

TEST_F(Comm, AllReduceGivesTheSameBitsOnEveryRank) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{5000}, std::size_t{200001}}) {
    std::vector<float> data(count);
    for (std::size_t i = 0; i < count; ++i)
      data[i] = std::sin(static_cast<float>(i * 3 + static_cast<std::size_t>(world().rank()) + 1)) * 1e3F;
    world().all_reduce(data.data(), count, DType::kF32, ReduceOp::kSum, "same bits").wait();
    Blob mine(count * 4);
    std::memcpy(mine.data(), data.data(), mine.size());
    for (const Blob& theirs : world().gather_blobs(mine, "results")) ASSERT_EQ(theirs, mine);
  }
}

TEST_F(Comm, NotANumberSurvivesEveryReduction) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
    float value = world().rank() == world().size() - 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
    world().all_reduce(&value, 1, DType::kF32, op, "loss").wait();
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST_F(Comm, GatherBlobsTakesAnySizes) {
  for (const std::size_t unit : {0, 1, 700, 1500, 100000}) {
    const auto blob_of = [&](int rank) {
      return Blob(unit * static_cast<std::size_t>(rank + 1) + 3, static_cast<std::byte>(rank + 1));
    };
    const auto all = world().gather_blobs(blob_of(world().rank()), "cards");
    ASSERT_EQ(static_cast<int>(all.size()), world().size());
    for (int rank = 0; rank < world().size(); ++rank)
      EXPECT_EQ(all[static_cast<std::size_t>(rank)], blob_of(rank));
  }
}

TEST_F(Comm, RunsManyPendingOperationsInIssueOrder) {
  std::vector<std::vector<float>> buffers(50);
  std::vector<Pending> pending;
  for (std::size_t n = 0; n < buffers.size(); ++n) {
    const std::size_t count = 1 + n * 997;
    buffers[n].resize(count * static_cast<std::size_t>(world().size()));
    std::fill_n(buffers[n].begin() + static_cast<std::ptrdiff_t>(count) * world().rank(), count,
                static_cast<float>(n) + 0.5F * static_cast<float>(world().rank()));
    pending.push_back(world().all_gather(buffers[n].data(), count, DType::kF32, "prefetch"));
  }
  for (std::size_t n = buffers.size(); n-- > 0;) {
    pending[n].wait();
    EXPECT_EQ(buffers[n].back(), static_cast<float>(n) + 0.5F * static_cast<float>(world().size() - 1));
  }
}

TEST_F(Comm, SplitsIntoGroupsThatWorkSideBySide) {
  const int rank = world().rank();
  const int color = rank % 2;
  auto group = world().split([](int other) { return other % 2; });
  const int members = (world().size() + 1 - color) / 2;
  EXPECT_EQ(group->size(), members);
  EXPECT_EQ(group->rank(), rank / 2);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> mine(20000, static_cast<float>(rank + 1));
    std::vector<float> all(20000, static_cast<float>(rank + 1));
    Pending first = group->all_reduce(mine.data(), mine.size(), DType::kF32, ReduceOp::kSum, "group");
    Pending second = world().all_reduce(all.data(), all.size(), DType::kF32, ReduceOp::kSum, "world");
    second.wait();
    first.wait();
    float in_group = 0;
    for (int other = color; other < world().size(); other += 2) in_group += static_cast<float>(other + 1);
    EXPECT_EQ(mine.back(), in_group);
    EXPECT_EQ(all.back(), static_cast<float>(world().size() * (world().size() + 1) / 2));
  }
  auto nested = group->split([](int) { return 0; });
  nested->barrier("nested");
  EXPECT_EQ(nested->size(), group->size());
}

TEST_F(Comm, RemembersItsLastOperations) {
  for (int n = 0; n < 100; ++n) world().barrier("tick");
  std::vector<float> buffer(8 * static_cast<std::size_t>(world().size()));
  world().all_gather(buffer.data(), 8, DType::kF32, "layers.3").wait();
  const auto lines = world().recent();
  ASSERT_EQ(lines.size(), 64U);
  EXPECT_MENTIONS(lines.back(), "all-gather 'layers.3' 8 x fp32, issued ", ", done ");
  EXPECT_MENTIONS(lines.front(), "barrier 'tick'");
}

TEST_F(Comm, RefusesTypesItCannotReduce) {
  std::vector<std::uint8_t> data(64);
  EXPECT_THROW(static_cast<void>(world().all_reduce(data.data(), 1, DType::kBF16, ReduceOp::kSum, "x")),
               Error);
  float output = 0;
  EXPECT_THROW(static_cast<void>(world().reduce_scatter(data.data(), DType::kF64, &output, 1, 1, false, "x")),
               Error);
  world().barrier("still in step");
}

TEST_F(Comm, ExchangesBlobsThroughTheJob) {
  for (int round = 0; round < 3; ++round) {
    const Blob mine(static_cast<std::size_t>(ranks().info().rank * 100 + round), std::byte{7});
    const auto all = ranks().job->exchange("card", mine);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      EXPECT_EQ(all[rank].size(), rank * 100 + static_cast<std::size_t>(round));
    ranks().job->fence("round");
  }
}

}  // namespace
}  // namespace echelon
