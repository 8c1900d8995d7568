#include <cmath>

#include "base/launch.cuh"
#include "base/pack.cuh"
#include "model/cuda/block.cuh"
#include "model/cuda/gpu_kernels.h"

namespace echelon::gpu {
namespace {

constexpr int kRowThreads = 1024;  // a row has tens of thousands of logits

/// Softmax in one pass (Milakov & Gimelshein, Online normalizer calculation for softmax): the largest value
/// so far, and the sum of exp(x - largest).
struct Softmax {
  float largest;
  float sum;
};

__device__ inline Softmax join(Softmax a, Softmax b) {
  const float largest = fmaxf(a.largest, b.largest);
  // If both are -infinity (no elements yet), their difference would be NaN.
  const float weight_a = a.largest == largest ? 1.0F : expf(a.largest - largest);
  const float weight_b = b.largest == largest ? 1.0F : expf(b.largest - largest);
  // Rounded as written: with a fused multiply-add the two lanes of an exchange would differ in the last bit.
  return {largest, __fadd_rn(__fmul_rn(a.sum, weight_a), __fmul_rn(b.sum, weight_b))};
}

__device__ inline Softmax over_row(Softmax mine) {
  __shared__ Softmax shared[kWarp];
  return over_block(
      mine, Softmax{-INFINITY, 0.0F}, shared, [](Softmax a, Softmax b) { return join(a, b); },
      [](Softmax value, int lanes) {
        return Softmax{__shfl_xor_sync(kAllLanes, value.largest, lanes),
                       __shfl_xor_sync(kAllLanes, value.sum, lanes)};
      });
}

template <class T>
__device__ inline Softmax softmax_of(const T* row, std::int64_t head, std::int64_t n) {
  Softmax mine{-INFINITY, 0.0F};
  walk<kVector<T>>(head, n, threadIdx.x, blockDim.x, [&](auto width, std::int64_t i) {
    constexpr int W = decltype(width)::value;
    float x[W];
    load(row + i, x);
    float largest = mine.largest;
#pragma unroll
    for (int j = 0; j < W; ++j) largest = fmaxf(largest, x[j]);
    if (largest != mine.largest) mine.sum *= expf(mine.largest - largest);
    mine.largest = largest;
#pragma unroll
    for (int j = 0; j < W; ++j) mine.sum += x[j] == -INFINITY ? 0.0F : expf(x[j] - largest);
  });
  return over_row(mine);
}

/// One block a row.
template <bool kGradient, class T>
__global__ void __launch_bounds__(kRowThreads)
    row_kernel(T* logits, const std::int64_t* targets, float* losses, std::int64_t n, float scale) {
  T* row = logits + static_cast<std::int64_t>(blockIdx.x) * n;
  const std::int64_t target = targets[blockIdx.x];
  const std::int64_t head = elements_to_border(row, n);
  if (target < 0) {
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    if (!kGradient) return;
    walk<kVector<T>>(head, n, threadIdx.x, blockDim.x, [&](auto width, std::int64_t i) {
      const float zeros[decltype(width)::value] = {};
      store(row + i, zeros);
    });
    return;
  }
  // Read before the gradient overwrites it: softmax_of() ends with a barrier.
  const float at_target = target < n ? widen(row[target]) : NAN;
  const Softmax all = softmax_of(row, head, n);
  if (threadIdx.x == 0) losses[blockIdx.x] = all.largest + logf(all.sum) - at_target;
  if (!kGradient) return;
  const float factor = scale / all.sum;
  walk<kVector<T>>(head, n, threadIdx.x, blockDim.x, [&](auto width, std::int64_t i) {
    constexpr int W = decltype(width)::value;
    float x[W];
    load(row + i, x);
#pragma unroll
    for (int j = 0; j < W; ++j) {
      x[j] = expf(x[j] - all.largest) * factor;
      if (i + j == target) x[j] -= scale;
    }
    store(row + i, x);
  });
}

}  // namespace

cudaError_t cross_entropy(DType type, void* logits, const std::int64_t* targets, float* losses,
                          std::int64_t rows, std::int64_t n, const float* scale, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  if (rows > kMostBlocks) return cudaErrorInvalidConfiguration;
  return with_type(type, [&](auto tag) {
    using T = decltype(tag);
    const auto blocks = static_cast<unsigned>(rows);
    auto* values = static_cast<T*>(logits);
    if (scale != nullptr) {
      launch(row_kernel<true, T>, {blocks, kRowThreads, stream}, values, targets, losses, n, *scale);
    } else {
      launch(row_kernel<false, T>, {blocks, kRowThreads, stream}, values, targets, losses, n, 0.0F);
    }
    return cudaGetLastError();
  });
}

}  // namespace echelon::gpu
