#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "base/str.h"
#include "comm/nccl/nccl_communicator.h"
#include "dist/ranks.h"
#include "gpu/device.h"
#include "support/matches.h"
#include "support/refusal.h"

// The GPU collectives on one device per rank. Small integers: exact whatever order NCCL sums in.
namespace echelon {
namespace {

using test::OnDevice;
using testing::ranks;
using testing::sum_at;
using testing::value_at;

class CommNccl : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t asked = cudaGetDeviceCount(&devices);
    if (asked != cudaSuccess) devices = 0;
    const JobInfo& info = ranks().info();
    if (devices < info.local_size) {
      GTEST_SKIP() << "needs " << info.local_size << " CUDA devices, " << devices << " visible"
                   << (asked == cudaSuccess ? "" : str(" (", cudaGetErrorString(asked), ")"));
    }
    if (!world_) {
      world_ = make_nccl_communicator(
          *ranks().job,
          {.device = info.local_rank, .timeout_s = 20.0, .current_stream = [] { return nullptr; }});
    }
  }
  static void TearDownTestSuite() { world_.reset(); }
  static Communicator& world() { return *world_; }

 private:
  static inline std::unique_ptr<Communicator> world_;
};

TEST_F(CommNccl, AllGatherFillsEverySlot) {
  const std::size_t count = 100003;
  const auto size = static_cast<std::size_t>(world().size());
  std::vector<float> host(count * size, -1.0F);
  for (std::size_t i = 0; i < count; ++i)
    host[static_cast<std::size_t>(world().rank()) * count + i] = value_at(world().rank(), i);
  const OnDevice<float> buffer(host);
  world().all_gather(buffer.data(), count, DType::kF32, "weights").wait();
  const auto all = buffer.values();
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(all[i], value_at(static_cast<int>(i / count), i % count)) << i;
}

TEST_F(CommNccl, ReduceScatterSumsScalesAndAccumulatesEveryType) {
  const std::size_t count = 65537;
  const auto size = static_cast<std::size_t>(world().size());
  for (const bool accumulate : {false, true}) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      std::vector<float> wide(count * size);
      std::vector<std::uint16_t> narrow(count * size);
      for (std::size_t i = 0; i < wide.size(); ++i) {
        wide[i] = value_at(world().rank(), i);
        narrow[i] = type == DType::kF16 ? float_to_half(wide[i]) : float_to_bf16(wide[i]);
      }
      const OnDevice<float> wide_input(wide);
      const OnDevice<std::uint16_t> narrow_input(narrow);
      const OnDevice<float> output(std::vector<float>(count, 3.0F));
      void* input = type == DType::kF32 ? static_cast<void*>(wide_input.data()) : narrow_input.data();
      world().reduce_scatter(input, type, output.data(), count, 0.5F, accumulate, "gradients").wait();
      const auto result = output.values();
      for (std::size_t i = 0; i < count; ++i) {
        const float sum = sum_at(static_cast<std::size_t>(world().rank()) * count + i);
        ASSERT_EQ(result[i], (accumulate ? 3.0F : 0.0F) + 0.5F * sum) << i;
      }
    }
  }
}

// Large values absorb small ones, so any other order gives other bits.
TEST_F(CommNccl, ReduceScatterOfTwoByteTypesSumsInRankOrder) {
  const std::size_t count = 40'009;
  const auto part = [](int rank, std::size_t i) {
    return static_cast<std::size_t>(rank) == i % 3 ? 16384.0F
                                                   : 0.0001220703125F * static_cast<float>(i % 7 + 1);
  };
  std::vector<std::uint16_t> input(count * static_cast<std::size_t>(world().size()));
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = float_to_bf16(part(world().rank(), i));
  const OnDevice<std::uint16_t> sent(input);
  const OnDevice<float> output(std::vector<float>(count, 0.0F));
  world().reduce_scatter(sent.data(), DType::kBF16, output.data(), count, 1.0F, false, "order").wait();
  const auto result = output.values();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = static_cast<std::size_t>(world().rank()) * count + i;
    float sum = part(0, at);
    for (int rank = 1; rank < world().size(); ++rank) sum += part(rank, at);
    ASSERT_EQ(result[i], sum) << i;
  }
}

// As a hybrid strategy does: neither is waited for before the other is issued.
TEST_F(CommNccl, AnAllReduceOfAnotherGroupRunsAfterTheReduceScatterThatFillsItsBuffer) {
  const auto within = world().split([](int) { return 0; });
  const auto across = world().split([](int) { return 0; });
  const std::size_t count = 1'000'003;
  const OnDevice<float> input(
      std::vector<float>(count * static_cast<std::size_t>(world().size()), world().rank() + 1.0F));
  const OnDevice<float> output(std::vector<float>(count, -7.0F));
  const float once = static_cast<float>(world().size() * (world().size() + 1)) / 2.0F;
  for (int round = 0; round < 20; ++round) {
    Pending first =
        within->reduce_scatter(input.data(), DType::kF32, output.data(), count, 1.0F, false, "within");
    Pending second = across->all_reduce(output.data(), count, DType::kF32, ReduceOp::kSum, "across");
    first.wait();
    second.wait();
    const auto result = output.values();
    ASSERT_EQ(result.front(), once * static_cast<float>(world().size()));
    ASSERT_EQ(result.back(), once * static_cast<float>(world().size()));
  }
}

TEST_F(CommNccl, GathersAndReductionsRunSideBySide) {
  const std::size_t count = 500'000;
  const auto size = static_cast<std::size_t>(world().size());
  const OnDevice<float> weights(std::vector<float>(count * size, world().rank() + 1.0F));
  const OnDevice<float> gradients(std::vector<float>(count * size, 2.0F));
  const OnDevice<float> sum(std::vector<float>(count, 0.0F));
  for (int round = 0; round < 10; ++round) {
    Pending reduced =
        world().reduce_scatter(gradients.data(), DType::kF32, sum.data(), count, 1.0F, false, "g");
    Pending gathered = world().all_gather(weights.data(), count, DType::kF32, "w");
    gathered.wait();
    reduced.wait();
  }
  EXPECT_EQ(weights.values().back(), static_cast<float>(world().size()));
  EXPECT_EQ(sum.values(), std::vector<float>(count, 2.0F * static_cast<float>(world().size())));
}

TEST_F(CommNccl, AllReduceReachesEveryRank) {
  const OnDevice<double> data(std::vector<double>(1000, world().rank() + 1.0));
  world().all_reduce(data.data(), 1000, DType::kF64, ReduceOp::kSum, "norm").wait();
  EXPECT_EQ(data.values().back(), world().size() * (world().size() + 1) / 2.0);
  world().all_reduce(data.data(), 1000, DType::kF64, ReduceOp::kMax, "norm").wait();
  EXPECT_EQ(data.values().front(), world().size() * (world().size() + 1) / 2.0);
}

TEST_F(CommNccl, GathersBlobsAndSplits) {
  const Blob mine(static_cast<std::size_t>(world().rank() * 1000), static_cast<std::byte>(world().rank()));
  const auto all = world().gather_blobs(mine, "cards");
  for (int rank = 0; rank < world().size(); ++rank) {
    EXPECT_EQ(all[static_cast<std::size_t>(rank)],
              Blob(static_cast<std::size_t>(rank * 1000), static_cast<std::byte>(rank)));
  }
  const auto group = world().split([](int rank) { return rank % 2; });
  EXPECT_EQ(group->size(), (world().size() + 1 - world().rank() % 2) / 2);
  group->barrier("group");
}

TEST_F(CommNccl, ABarrierFindsRanksThatIssuedOtherOperations) {
  if (world().size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const OnDevice<float> data(std::vector<float>(10));
  world()
      .all_reduce(data.data(), 10, DType::kF32, ReduceOp::kSum, world().rank() == 0 ? "this" : "that")
      .wait();
  EXPECT_MENTIONS(test::refusal(Code::kPeer, [&] { world().barrier("end of step"); }),
                  "has issued different operations");
}

}  // namespace
}  // namespace echelon
