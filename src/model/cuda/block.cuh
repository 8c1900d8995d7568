#pragma once
#include <cuda_runtime.h>

#include <cstdint>

/// Threads of a block and of a launch, and sums over a block in an order fixed by its number of threads.
namespace echelon::gpu {

constexpr int kThreads = 256;  ///< of a block, where a kernel has no reason for another number
constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;
constexpr std::int64_t kMostBlocks = 0x7FFFFFFF;  ///< along x
constexpr std::int64_t kManyBlocks = 4096;  ///< fills any device; each thread then strides over the rest

/// Among the threads of a launch.
__device__ inline std::int64_t own_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t all_threads() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

/// combine(a, b) over the values of all threads; every thread gets the result. The block has a multiple of 32
/// threads, at most 1024. `neutral`: combine(x, neutral) is x. Shuffle(value, lanes) is the value of the
/// thread that many lanes away.
template <class T, class Combine, class Shuffle>
__device__ inline T over_block(T value, T neutral, T* shared, Combine combine, Shuffle shuffle) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) value = combine(value, shuffle(value, lanes));
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  __syncthreads();  // the last use of `shared` is over
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = lane < static_cast<int>(blockDim.x) / kWarp ? shared[lane] : neutral;
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) value = combine(value, shuffle(value, lanes));
  return value;
}

template <class T>
__device__ inline T block_sum(T value) {
  __shared__ T shared[kWarp];
  return over_block(
      value, T{0}, shared, [](T a, T b) { return a + b; },
      [](T mine, int lanes) { return __shfl_xor_sync(kAllLanes, mine, lanes); });
}

/// Blocks that give each thread `per_thread` of `count` elements, at most `most`.
inline unsigned blocks_for(std::int64_t count, std::int64_t per_thread, std::int64_t most) {
  const std::int64_t per_block = kThreads * per_thread;
  const std::int64_t blocks = (count + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

}  // namespace echelon::gpu
