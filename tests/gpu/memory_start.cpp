#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "gpu/accelerator.h"
#include "support/matches.h"

// PyTorch's pool of GPU memory, itself, on a device that is nothing but a piece of host memory: before it is
// started it refuses, and choosing a device starts it. The functions below stand before those of libcudart.
namespace {

constexpr std::size_t kMemory = std::size_t{1} << 30;

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(static_cast<void*>(properties), 0, sizeof *properties);
  properties->major = 9;
  properties->totalGlobalMem = kMemory;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  *available = *total = kMemory;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long*,
                                     cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                     std::size_t*) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
}

namespace echelon {
namespace {

TEST(MemoryOfTheGpu, IsStartedWhereTheDeviceIsChosen) {
  namespace pool = c10::cuda::CUDACachingAllocator;
  app::Accelerator& accelerator = test::accelerator();
  ASSERT_EQ(accelerator.device_count(), 1);
  try {
    (void)pool::raw_alloc_with_stream(1000, nullptr);
    FAIL() << "it needs no start: what this test is about is gone";
  } catch (const c10::Error& error) {
    EXPECT_MENTIONS(error.what(), "Allocator not initialized");
  }
  accelerator.select(0);
  void* const memory = pool::raw_alloc_with_stream(1000, nullptr);
  EXPECT_NE(memory, nullptr);
  pool::raw_delete(memory);
}

}  // namespace
}  // namespace echelon
