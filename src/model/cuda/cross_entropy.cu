#include <algorithm>
#include <cmath>

#include "base/cuda/launch.cuh"
#include "base/cuda/pack.cuh"
#include "model/cuda/block.cuh"
#include "model/cuda/gpu_kernels.h"

namespace echelon::gpu {
namespace {

constexpr int kRowThreads = 1024;  // a row has tens of thousands of logits
constexpr int kRowBlocks = 2;      // of short rows on a multiprocessor: one reads while the other one writes
constexpr int kRoundBytes = kRowThreads * kAccessBytes;  // one access of each thread
/// Accesses of a thread that are on their way together, as many as 32 registers a thread allow: a block alone
/// on a multiprocessor must have some 32 KB on their way to keep the memory busy.
constexpr int kInFlight = 3;

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

template <int W>
__device__ inline void add(const float (&x)[W], Softmax& to) {
  float largest = to.largest;
#pragma unroll
  for (int j = 0; j < W; ++j) largest = fmaxf(largest, x[j]);
  if (largest != to.largest) to.sum *= expf(to.largest - largest);
  to.largest = largest;
#pragma unroll
  for (int j = 0; j < W; ++j) to.sum += x[j] == -INFINITY ? 0.0F : expf(x[j] - largest);
}

/// A row in memory: `head` single elements, `kept` ones in packs, of which the block has a copy, and the
/// rest. A thread finds in the copy what it put there itself, so that no barrier is needed.
template <class T>
struct Row {
  static constexpr int V = kVector<T>;
  static constexpr int kRound = kRowThreads * V;

  T* at;
  T* copy;
  std::int64_t n;
  int head;
  int kept;

  /// The thread's next packs, from i on, go into the copy.
  __device__ void keep(int i) const {
    Pack<T, V> packs[kInFlight];
#pragma unroll
    for (int p = 0; p < kInFlight; ++p) {
      if (i + p * kRound < kept) packs[p] = *reinterpret_cast<const Pack<T, V>*>(at + head + i + p * kRound);
    }
#pragma unroll
    for (int p = 0; p < kInFlight; ++p) {
      if (i + p * kRound < kept) *reinterpret_cast<Pack<T, V>*>(copy + i + p * kRound) = packs[p];
    }
  }

  // As walk(), over what is not kept.
  template <class F>
  __device__ void walk_head(F f) const {
    if (static_cast<int>(threadIdx.x) < head) f(Width<1>{}, threadIdx.x);
  }
  template <class F>
  __device__ void walk_rest(F f) const {
    const std::int64_t begin = head + kept;
    walk<V>(0, n - begin, threadIdx.x, kRowThreads, [&](auto width, std::int64_t i) { f(width, begin + i); });
  }
};

template <class T>
__device__ inline Softmax softmax_of(const Row<T>& row) {
  Softmax mine{-INFINITY, 0.0F};
  const auto take = [&](auto width, std::int64_t i) {
    float x[decltype(width)::value];
    load(row.at + i, x);
    add(x, mine);
  };
  row.walk_head(take);
  int packs = 0;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) * Row<T>::V; i < row.kept; i += Row<T>::kRound) {
    if (packs++ % kInFlight == 0) row.keep(i);
    float x[Row<T>::V];
    load(row.copy + i, x);
    add(x, mine);
  }
  row.walk_rest(take);
  return over_row(mine);
}

/// The rest comes first: it was read last, so that the L2 has it.
template <class T>
__device__ inline void write_gradient(const Row<T>& row, const Softmax& all, std::int64_t target,
                                      float scale) {
  const float factor = scale / all.sum;
  const auto write = [&](auto& x, std::int64_t i) {
    std::int64_t before = target - i;
    for (float& value : x) {
      value = expf(value - all.largest) * factor;
      if (before-- == 0) value -= scale;
    }
    store(row.at + i, x);
  };
  const auto read_again = [&](auto width, std::int64_t i) {
    float x[decltype(width)::value];
    load(row.at + i, x);
    write(x, i);
  };
  row.walk_rest(read_again);
  row.walk_head(read_again);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) * Row<T>::V; i < row.kept; i += Row<T>::kRound) {
    float x[Row<T>::V];
    load(row.copy + i, x);
    write(x, row.head + i);
  }
}

/// One block a row. For the gradient a block has room for `kept` elements in dynamic_shared().
template <bool kGradient, class T>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    row_kernel(T* logits, const std::int64_t* targets, float* losses, std::int64_t n, float scale, int kept) {
  T* at = logits + static_cast<std::int64_t>(blockIdx.x) * n;
  const std::int64_t target = targets[blockIdx.x];
  const std::int64_t head = elements_to_border(at, n);
  if (target < 0) {
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    if (!kGradient) return;
    walk<kVector<T>>(head, n, threadIdx.x, kRowThreads, [&](auto width, std::int64_t i) {
      const float zeros[decltype(width)::value] = {};
      store(at + i, zeros);
    });
    return;
  }
  // Read before the gradient overwrites it: softmax_of() ends with a barrier.
  const float at_target = target < n ? widen(at[target]) : NAN;
  const std::int64_t packed = (n - head) / kVector<T> * kVector<T>;
  const std::int64_t in_copy = packed < kept ? packed : kept;
  const Row<T> row{at, dynamic_shared<T>(), n, static_cast<int>(head),
                   kGradient ? static_cast<int>(in_copy) : 0};
  const Softmax all = softmax_of(row);
  if (threadIdx.x == 0) losses[blockIdx.x] = all.largest + logf(all.sum) - at_target;
  // The target is read again to leave its registers to softmax_of().
  if (kGradient) write_gradient(row, all, targets[blockIdx.x], scale);
}

/// Bytes of a row that a block of this kernel keeps, in whole rounds of its threads, so that the order of
/// sums is the same whatever a device has.
cudaError_t allow_to_keep(const void* kernel, std::int64_t row_bytes, std::int64_t* kept) {
  int device = 0;
  int most = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  const int room = (most - static_cast<int>(sizeof(Softmax)) * kWarp) / kRoundBytes * kRoundBytes;
  *kept = std::min<std::int64_t>(row_bytes / kAccessBytes * kAccessBytes, room);
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(*kept));
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
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
    if (scale == nullptr) {
      launch(row_kernel<false, T>, {blocks, kRowThreads, stream}, values, targets, losses, n, 0.0F, 0);
      return cudaGetLastError();
    }
    std::int64_t kept = 0;
    const auto* kernel = reinterpret_cast<const void*>(row_kernel<true, T>);
    const cudaError_t allowed = allow_to_keep(kernel, n * kSize, &kept);
    if (allowed != cudaSuccess) return allowed;
    const Grid grid{blocks, kRowThreads, stream, static_cast<std::size_t>(kept)};
    launch(row_kernel<true, T>, grid, values, targets, losses, n, *scale, static_cast<int>(kept / kSize));
    return cudaGetLastError();
  });
}

}  // namespace echelon::gpu
