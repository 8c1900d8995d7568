#include <algorithm>

#include "comm/nccl/scale.h"

namespace echelon {
namespace {

constexpr int kThreads = 256;
// Enough blocks to fill any device; each thread then strides over the rest.
constexpr std::size_t kMostBlocks = 4096;

unsigned blocks_for(std::size_t count) {
  return static_cast<unsigned>(std::min(kMostBlocks, (count + kThreads - 1) / kThreads));
}

__global__ void widen_kernel(const std::uint16_t* from, float* to, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    to[i] = __uint_as_float(static_cast<unsigned>(from[i]) << 16);
  }
}

__global__ void scale_kernel(const float* from, float* to, std::size_t count, float scale, bool accumulate) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    const float scaled = __fmul_rn(scale, from[i]);  // no fused multiply-add: the CPU ranks have none either
    to[i] = accumulate ? __fadd_rn(to[i], scaled) : scaled;
  }
}

}  // namespace

cudaError_t widen_bf16(const std::uint16_t* from, float* to, std::size_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  widen_kernel<<<blocks_for(count), kThreads, 0, stream>>>(from, to, count);
  return cudaGetLastError();
}

cudaError_t scale_into(const float* from, float* to, std::size_t count, float scale, bool accumulate,
                       cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  scale_kernel<<<blocks_for(count), kThreads, 0, stream>>>(from, to, count, scale, accumulate);
  return cudaGetLastError();
}

}  // namespace echelon
