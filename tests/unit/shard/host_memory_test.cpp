#include "shard/memory/host_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

namespace echelon {
namespace {

/// Tensors of `bytes`, at::kByte.
at::Tensor bytes_tensor(std::int64_t bytes) {
  return at::empty({bytes}, at::kByte);
}

class HostMemoryCounts : public ::testing::Test {
 protected:
  void SetUp() override {
    HostMemory::install();
    live_ = HostMemory::live_bytes();
    HostMemory::reset_peak();
  }
  std::int64_t live_ = 0;
};

TEST_F(HostMemoryCounts, EveryTensorAsItWasAskedFor) {
  for (const std::int64_t bytes : {1, 63, 64, 65, 32767, 32768, 32769, 5'000'001}) {
    at::Tensor tensor = bytes_tensor(bytes);
    EXPECT_EQ(HostMemory::live_bytes() - live_, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64, 0U);
    tensor.fill_(7);
    EXPECT_EQ(tensor.sum().item<std::int64_t>(), 7 * bytes);
    tensor.reset();
    EXPECT_EQ(HostMemory::live_bytes(), live_);
  }
  EXPECT_EQ(at::empty({0}).numel(), 0);
}

TEST_F(HostMemoryCounts, ThePeakUntilItIsReset) {
  {
    const at::Tensor first = bytes_tensor(1'000'000);
    const at::Tensor second = bytes_tensor(500);
  }
  const at::Tensor later = bytes_tensor(300'000);
  EXPECT_EQ(HostMemory::peak_bytes() - live_, 1'000'500);
  HostMemory::reset_peak();
  EXPECT_EQ(HostMemory::peak_bytes() - live_, 300'000);
}

TEST_F(HostMemoryCounts, WhatIsKeptFromTheSystem) {
  {
    const at::Tensor large = bytes_tensor(64 << 20);
    const at::Tensor small = bytes_tensor(1);
  }
  const std::int64_t reserved = HostMemory::reserved_bytes();
  EXPECT_GE(reserved, HostMemory::peak_bytes());
  for (int i = 0; i < 20; ++i) {
    const at::Tensor again = bytes_tensor(64 << 20);
    const at::Tensor small = bytes_tensor(1);
  }
  EXPECT_EQ(HostMemory::reserved_bytes(), reserved);
}

TEST_F(HostMemoryCounts, ZerosAreZeroWhereverTheyLie) {
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t numel : {10, 50'000, 700'000}) {
      const at::Tensor zeros = HostMemory::zeros(numel, at::TensorOptions().dtype(at::kFloat));
      EXPECT_EQ(zeros.sizes(), at::IntArrayRef({numel}));
      EXPECT_EQ(zeros.abs().sum().item<float>(), 0.0F) << round << ", " << numel;
      zeros.fill_(7.0F);  // what comes back is not fresh any more
    }
  }
}

TEST_F(HostMemoryCounts, TensorsFreedByOtherThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) {
        at::Tensor tensor = bytes_tensor(1 + (i * 977) % 100'000);
        std::thread([moved = std::move(tensor)]() mutable { moved.reset(); }).join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(HostMemory::live_bytes(), live_);
}

TEST_F(HostMemoryCounts, RawAllocationsToo) {
  at::Allocator* const allocator = c10::GetAllocator(at::kCPU);
  void* const raw = allocator->raw_allocate(100'000);
  EXPECT_EQ(HostMemory::live_bytes() - live_, 100'000);
  allocator->raw_deallocate(raw);
  EXPECT_EQ(HostMemory::live_bytes(), live_);
}

TEST_F(HostMemoryCounts, RefusesTheImpossibleAndGoesOn) {
  EXPECT_THROW(bytes_tensor(std::int64_t{1} << 50), c10::Error);
  EXPECT_EQ(HostMemory::live_bytes(), live_);
  EXPECT_EQ(bytes_tensor(10).numel(), 10);
}

}  // namespace
}  // namespace echelon
