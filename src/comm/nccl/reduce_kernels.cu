#include <algorithm>

#include "base/cuda/launch.cuh"
#include "base/cuda/pack.cuh"
#include "comm/nccl/reduce_kernels.h"

namespace echelon {
namespace {

constexpr int kThreads = 256;
// Enough blocks to fill any device; each thread then strides over the rest.
constexpr std::size_t kMostBlocks = 4096;

unsigned blocks_for(std::size_t count) {
  return static_cast<unsigned>(std::min(kMostBlocks, (count + kThreads - 1) / kThreads));
}

__device__ std::size_t own_index() {
  return blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
}
__device__ std::size_t all_threads() {
  return static_cast<std::size_t>(gridDim.x) * blockDim.x;
}

/// No fused multiply-add, so that the bits equal those of CPU ranks (comm/reduce.cpp).
__device__ float scaled(float sum, float scale, bool accumulate, float before) {
  const float product = __fmul_rn(scale, sum);
  return accumulate ? __fadd_rn(before, product) : product;
}

/// Blocks in y: parts. Each thread reads and writes V elements at a time, so that a warp's accesses lie side
/// by side.
template <class T, int V>
__global__ void sum_kernel(Pieces pieces, float* output, float scale, bool accumulate) {
  const std::size_t first = blockIdx.y * static_cast<std::size_t>(pieces.size) * pieces.count;
  const auto* own = static_cast<const T*>(pieces.own) + first;
  const auto* arrived = static_cast<const T*>(pieces.arrived) + first;
  output += blockIdx.y * pieces.count;
  for (std::size_t i = own_index() * V; i < pieces.count; i += all_threads() * V) {
    float sum[V] = {};
    // The first piece is copied, not added to zero: 0 + -0 would lose the sign of a negative zero.
    for (int rank = 0; rank < pieces.size; ++rank) {
      const auto* piece = rank == pieces.rank ? own : arrived + static_cast<std::size_t>(rank) * pieces.count;
      float values[V];
      gpu::load(piece + i, values);
#pragma unroll
      for (int j = 0; j < V; ++j) sum[j] = rank == 0 ? values[j] : __fadd_rn(sum[j], values[j]);
    }
    float before[V] = {};
    if (accumulate) gpu::load(output + i, before);
#pragma unroll
    for (int j = 0; j < V; ++j) sum[j] = scaled(sum[j], scale, accumulate, before[j]);
    gpu::store(output + i, sum);
  }
}

__global__ void scale_kernel(const float* from, float* to, std::size_t count, float scale, bool accumulate) {
  for (std::size_t i = own_index(); i < count; i += all_threads())
    to[i] = scaled(from[i], scale, accumulate, accumulate ? to[i] : 0.0F);
}

template <class T, int V>
void launch_sum(const Pieces& pieces, float* output, float scale, bool accumulate, cudaStream_t stream) {
  const dim3 blocks(blocks_for((pieces.count + V - 1) / V), static_cast<unsigned>(pieces.parts));
  gpu::launch(sum_kernel<T, V>, {blocks, kThreads, stream}, pieces, output, scale, accumulate);
}

}  // namespace

cudaError_t sum_pieces(const Pieces& pieces, DType type, float* output, float scale, bool accumulate,
                       cudaStream_t stream) {
  return gpu::with_type(type, [&](auto tag) {
    using T = decltype(tag);
    if (pieces.count == 0) return cudaSuccess;
    constexpr int V = gpu::kVector<float>;
    const bool wide = pieces.count % V == 0 && gpu::on_borders({pieces.own, pieces.arrived, output});
    auto* const launch = wide ? launch_sum<T, V> : launch_sum<T, 1>;
    launch(pieces, output, scale, accumulate, stream);
    return cudaGetLastError();
  });
}

cudaError_t scale_into(const float* from, float* to, std::size_t count, float scale, bool accumulate,
                       cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  gpu::launch(scale_kernel, {blocks_for(count), kThreads, stream}, from, to, count, scale, accumulate);
  return cudaGetLastError();
}

}  // namespace echelon
