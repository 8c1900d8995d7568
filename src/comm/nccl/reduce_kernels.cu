#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "base/launch.cuh"
#include "comm/nccl/reduce_kernels.h"

namespace echelon {
namespace {

constexpr int kThreads = 256;
// Enough blocks to fill any device; each thread then strides over the rest.
constexpr std::size_t kMostBlocks = 4096;
constexpr int kWide = 4;  // fp32 elements in a 16-byte access

unsigned blocks_for(std::size_t count) {
  return static_cast<unsigned>(std::min(kMostBlocks, (count + kThreads - 1) / kThreads));
}

__device__ std::size_t own_index() {
  return blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
}
__device__ std::size_t all_threads() {
  return static_cast<std::size_t>(gridDim.x) * blockDim.x;
}

/// How the elements of a piece are stored and read.
template <bool kBf16>
struct TwoByte {
  using Stored = std::uint16_t;
  static __device__ float widen(Stored bits) {
    if (kBf16) return __uint_as_float(static_cast<unsigned>(bits) << 16);
    return __half2float(__ushort_as_half(bits));
  }
};
struct FourByte {
  using Stored = float;
  static __device__ float widen(Stored value) { return value; }
};

template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T at[V];
};

/// V elements of a piece, from i.
template <class Type, int V>
__device__ void load(const typename Type::Stored* piece, std::size_t i, float (&to)[V]) {
  const auto pack = *reinterpret_cast<const Pack<typename Type::Stored, V>*>(piece + i);
#pragma unroll
  for (int j = 0; j < V; ++j) to[j] = Type::widen(pack.at[j]);
}

/// No fused multiply-add, so that the bits equal those of CPU ranks (comm/reduce.cpp).
__device__ float scaled(float sum, float scale, bool accumulate, float before) {
  const float product = __fmul_rn(scale, sum);
  return accumulate ? __fadd_rn(before, product) : product;
}

/// Blocks in y: parts. Each thread reads and writes V elements at a time, so that a warp's accesses lie side
/// by side.
template <class Type, int V>
__global__ void sum_kernel(Pieces pieces, float* output, float scale, bool accumulate) {
  const std::size_t first = blockIdx.y * static_cast<std::size_t>(pieces.size) * pieces.count;
  const auto* own = static_cast<const typename Type::Stored*>(pieces.own) + first;
  const auto* arrived = static_cast<const typename Type::Stored*>(pieces.arrived) + first;
  output += blockIdx.y * pieces.count;
  for (std::size_t i = own_index() * V; i < pieces.count; i += all_threads() * V) {
    float sum[V] = {};
    // The first piece is copied, not added to zero: 0 + -0 would lose the sign of a negative zero.
    for (int rank = 0; rank < pieces.size; ++rank) {
      const auto* piece = rank == pieces.rank ? own : arrived + static_cast<std::size_t>(rank) * pieces.count;
      float values[V];
      load<Type>(piece, i, values);
#pragma unroll
      for (int j = 0; j < V; ++j) sum[j] = rank == 0 ? values[j] : __fadd_rn(sum[j], values[j]);
    }
    auto* const place = reinterpret_cast<Pack<float, V>*>(output + i);
    Pack<float, V> result{};
    if (accumulate) result = *place;
#pragma unroll
    for (int j = 0; j < V; ++j) result.at[j] = scaled(sum[j], scale, accumulate, result.at[j]);
    *place = result;
  }
}

__global__ void scale_kernel(const float* from, float* to, std::size_t count, float scale, bool accumulate) {
  for (std::size_t i = own_index(); i < count; i += all_threads())
    to[i] = scaled(from[i], scale, accumulate, accumulate ? to[i] : 0.0F);
}

bool on_border(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

template <class Type, int V>
void launch_sum(const Pieces& pieces, float* output, float scale, bool accumulate, cudaStream_t stream) {
  const dim3 blocks(blocks_for((pieces.count + V - 1) / V), static_cast<unsigned>(pieces.parts));
  gpu::launch(sum_kernel<Type, V>, {blocks, kThreads, stream}, pieces, output, scale, accumulate);
}

template <class Type>
void launch_widest(const Pieces& pieces, float* output, float scale, bool accumulate, cudaStream_t stream) {
  const bool wide =
      pieces.count % kWide == 0 && on_border(pieces.own) && on_border(pieces.arrived) && on_border(output);
  auto* const launch = wide ? launch_sum<Type, kWide> : launch_sum<Type, 1>;
  launch(pieces, output, scale, accumulate, stream);
}

}  // namespace

cudaError_t sum_pieces(const Pieces& pieces, DType type, float* output, float scale, bool accumulate,
                       cudaStream_t stream) {
  if (type != DType::kBF16 && type != DType::kF16 && type != DType::kF32) return cudaErrorInvalidValue;
  if (pieces.count == 0) return cudaSuccess;
  if (type == DType::kF32) {
    launch_widest<FourByte>(pieces, output, scale, accumulate, stream);
  } else if (type == DType::kBF16) {
    launch_widest<TwoByte<true>>(pieces, output, scale, accumulate, stream);
  } else {
    launch_widest<TwoByte<false>>(pieces, output, scale, accumulate, stream);
  }
  return cudaGetLastError();
}

cudaError_t scale_into(const float* from, float* to, std::size_t count, float scale, bool accumulate,
                       cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  gpu::launch(scale_kernel, {blocks_for(count), kThreads, stream}, from, to, count, scale, accumulate);
  return cudaGetLastError();
}

}  // namespace echelon
