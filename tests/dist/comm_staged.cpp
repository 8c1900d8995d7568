#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "base/error.h"
#include "comm/host_staged_communicator.h"
#include "comm/mpi/mpi_world.h"
#include "dist/ranks.h"

// Collectives of device buffers by way of the host. The device is played by addresses that only the copy
// functions can turn into memory: whoever else touches them dies.
namespace echelon {
namespace {

using testing::ranks;
using testing::sum_at;
using testing::value_at;

/// Address space without access rights, and beside it the bytes that lie "there".
class Device {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  Device()
      : addresses_(
            static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        bytes_(kBytes) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() { munmap(addresses_, kBytes); }

  template <class T>
  T* put(const std::vector<T>& values) {
    std::byte* place = addresses_ + used_;
    used_ += (values.size() * sizeof(T) + 63) / 64 * 64;
    std::memcpy(memory(place), values.data(), values.size() * sizeof(T));
    return reinterpret_cast<T*>(place);
  }
  template <class T>
  std::vector<T> values(const T* place, std::size_t count) {
    std::vector<T> result(count);
    std::memcpy(result.data(), memory(place), count * sizeof(T));
    return result;
  }

  [[nodiscard]] DeviceCopies copies() {
    return {.allocate_host =
                [this](std::size_t bytes) {
                  auto& block = host_[++blocks];
                  block.resize(bytes);
                  return block.data();
                },
            .free_host = [this](std::byte*) { ++freed; },
            .to_host = [this](std::byte* host, const void* device,
                              std::size_t bytes) { std::memcpy(host, memory(device), bytes); },
            .to_device = [this](void* device, const std::byte* host,
                                std::size_t bytes) { std::memcpy(memory(device), host, bytes); }};
  }
  int blocks = 0;
  int freed = 0;

 private:
  std::byte* memory(const void* device) {
    return bytes_.data() + (static_cast<const std::byte*>(device) - addresses_);
  }
  std::byte* addresses_;
  std::vector<std::byte> bytes_;
  std::size_t used_ = 0;
  std::map<int, std::vector<std::byte>> host_;
};

class CommStaged : public ::testing::Test {
 protected:
  CommStaged()
      : world_(make_host_staged_communicator(make_mpi_communicator(*ranks().job, 30.0), device_.copies())) {}
  Communicator& world() { return *world_; }
  Device device_;

 private:
  std::unique_ptr<Communicator> world_;
};

std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_at(rank, i);
  return values;
}

TEST_F(CommStaged, AllGatherFillsEverySlot) {
  const std::size_t count = 10007;
  std::vector<float> host(count * static_cast<std::size_t>(world().size()), -1.0F);
  const auto mine = values_of(world().rank(), count);
  std::copy(mine.begin(), mine.end(),
            host.begin() + static_cast<std::ptrdiff_t>(count) * static_cast<std::ptrdiff_t>(world().rank()));
  float* buffer = device_.put(host);
  world().all_gather(buffer, count, DType::kF32, "weights").wait();
  const auto all = device_.values(buffer, host.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(all[i], value_at(static_cast<int>(i / count), i % count)) << i;
}

TEST_F(CommStaged, ReduceScatterSumsScalesAndAccumulates) {
  const std::size_t count = 4099;
  for (const bool accumulate : {false, true}) {
    float* input = device_.put(values_of(world().rank(), count * static_cast<std::size_t>(world().size())));
    float* output = device_.put(std::vector<float>(count, 3.0F));
    world().reduce_scatter(input, DType::kF32, output, count, 0.5F, accumulate, "gradients").wait();
    const auto result = device_.values(output, count);
    for (std::size_t i = 0; i < count; ++i) {
      const float sum = sum_at(static_cast<std::size_t>(world().rank()) * count + i);
      ASSERT_EQ(result[i], (accumulate ? 3.0F : 0.0F) + 0.5F * sum) << i;
    }
  }
}

TEST_F(CommStaged, AllReduceReachesEveryRank) {
  double* data = device_.put(std::vector<double>(1000, world().rank() + 1.0));
  world().all_reduce(data, 1000, DType::kF64, ReduceOp::kSum, "norm").wait();
  EXPECT_EQ(device_.values(data, 1000).back(), world().size() * (world().size() + 1) / 2.0);
}

// A hybrid strategy reduces within a group and then between groups before it waits for either.
TEST_F(CommStaged, AnAllReduceOfAnotherGroupSeesTheUnfinishedReduceScatterThatFillsItsBuffer) {
  const auto half = world().split([](int rank) { return rank / 2; });
  const auto across = world().split([](int rank) { return rank % 2; });
  const std::size_t count = 3001;
  for (int round = 0; round < 10; ++round) {
    float* input =
        device_.put(values_of(world().rank() + round, count * static_cast<std::size_t>(half->size())));
    float* output = device_.put(std::vector<float>(count, -7.0F));
    Pending first = half->reduce_scatter(input, DType::kF32, output, count, 1.0F, false, "within");
    Pending second = across->all_reduce(output, count, DType::kF32, ReduceOp::kSum, "between");
    first.wait();
    second.wait();
    const auto result = device_.values(output, count);
    for (std::size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int rank = world().rank() % 2; rank < world().size(); rank += 2) {
        const int group = rank / 2 * 2;
        for (int member = group; member < std::min(group + 2, world().size()); ++member)
          sum += value_at(member + round, static_cast<std::size_t>(rank % 2) * count + i);
      }
      ASSERT_EQ(result[i], sum) << i;
    }
  }
}

TEST_F(CommStaged, WritesTheDeviceOnlyWhenWaitedForAndMayBeDropped) {
  float* kept = device_.put(std::vector<float>(100, 1.0F));
  float* dropped = device_.put(std::vector<float>(100, 1.0F));
  Pending pending = world().all_reduce(kept, 100, DType::kF32, ReduceOp::kSum, "kept");
  (void)world().all_reduce(dropped, 100, DType::kF32, ReduceOp::kSum, "dropped");
  world().barrier("all are through");
  EXPECT_EQ(device_.values(kept, 100), std::vector<float>(100, 1.0F));
  pending.wait();
  EXPECT_EQ(device_.values(kept, 100), std::vector<float>(100, static_cast<float>(world().size())));
  EXPECT_EQ(device_.values(dropped, 100), std::vector<float>(100, 1.0F));
}

TEST_F(CommStaged, UsesItsHostMemoryAgain) {
  float* data = device_.put(std::vector<float>(5000, 0.0F));
  for (int round = 0; round < 20; ++round)
    world().all_reduce(data, 5000, DType::kF32, ReduceOp::kSum, "again").wait();
  EXPECT_EQ(device_.blocks, 1);
}

TEST_F(CommStaged, RefusesTypesItCannotReduce) {
  auto* data = device_.put(std::vector<std::uint8_t>(64));
  EXPECT_THROW((void)world().all_reduce(data, 1, DType::kBF16, ReduceOp::kSum, "x"), Error);
  world().barrier("still in step");
}

TEST(CommStagedMemory, IsGivenBackAtTheEnd) {
  Device device;
  {
    const auto world =
        make_host_staged_communicator(make_mpi_communicator(*ranks().job, 30.0), device.copies());
    const auto group = world->split([](int) { return 0; });
    float* data = device.put(std::vector<float>(10, 1.0F));
    group->all_reduce(data, 10, DType::kF32, ReduceOp::kSum, "x").wait();
  }
  EXPECT_EQ(device.blocks, 1);
  EXPECT_EQ(device.freed, 1);
}

}  // namespace
}  // namespace echelon
