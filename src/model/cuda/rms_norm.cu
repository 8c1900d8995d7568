#include <algorithm>

#include "base/cuda/launch.cuh"
#include "base/cuda/pack.cuh"
#include "model/cuda/block.cuh"
#include "model/cuda/gpu_kernels.h"

namespace echelon::gpu {
namespace {

/// Blocks of the backward pass, each with a partial sum of the weight's gradient. A constant and not a
/// function of the device, so that the order of the sum is the same everywhere.
constexpr std::int64_t kParts = 512;
/// Partial sums of rows up to this length are in shared memory (48 KB, available without opting in to more).
constexpr std::int64_t kSharedColumns = 12000;

/// Most threads of a block that holds a whole row.
constexpr int kRowThreads = 1024;

/// A normalized value, as its weight and the weight's gradient see it.
template <class T>
__device__ inline float normed(float value, NormRounding rounding) {
  return rounding == NormRounding::kTwice ? rounded<T>(value) : value;
}

/// Loads what values are multiplied by.
template <int V, class T>
__device__ inline void load_weight(const T* w, float (&to)[V], NormRounding rounding) {
  load(w, to);
  if (rounding != NormRounding::kOncePlusOne) return;
#pragma unroll
  for (int j = 0; j < V; ++j) to[j] += 1.0F;
}

/// One block a row. A thread reads again only what it wrote itself.
template <int V, class T>
__global__ void forward_kernel(const T* x, const T* added, T* total, const T* w, T* y, float* inv_rms,
                               std::int64_t n, float eps, NormRounding rounding) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t first = static_cast<std::int64_t>(threadIdx.x) * V;
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * V;
  x += row * n;
  y += row * n;
  float xs[V];
  float ws[V];
  float sum = 0;
  for (std::int64_t i = first; i < n; i += step) {
    load(x + i, xs);
    if (added != nullptr) {
      load(added + row * n + i, ws);
#pragma unroll
      for (int j = 0; j < V; ++j) xs[j] = rounded<T>(xs[j] + ws[j]);
      store(total + row * n + i, xs);
    }
#pragma unroll
    for (int j = 0; j < V; ++j) sum += xs[j] * xs[j];
  }
  if (added != nullptr) x = total + row * n;
  const float inv = 1.0F / sqrtf(block_sum(sum) / static_cast<float>(n) + eps);
  if (threadIdx.x == 0) inv_rms[row] = inv;
  for (std::int64_t i = first; i < n; i += step) {
    load(x + i, xs);
    load_weight(w + i, ws, rounding);
#pragma unroll
    for (int j = 0; j < V; ++j) xs[j] = normed<T>(xs[j] * inv, rounding) * ws[j];
    store(y + i, xs);
  }
}

/// Block b processes rows b, b + blocks, ... A thread owns the same V columns in every row, and the block all
/// of them: what a row needs stays in registers, and the next row is on its way while this one is summed. Its
/// dsum is not: that would be more registers than there are.
template <int V, class T>
__global__ void __launch_bounds__(kRowThreads)
    backward_row_kernel(const T* dy, const T* dsum, const T* x, const T* w, const float* inv_rms, T* dx,
                        float* partial, std::int64_t rows, std::int64_t n, NormRounding rounding) {
  const std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * V;
  const bool mine = column < n;
  float ws[V] = {};
  float sums[V] = {};
  Pack<T, V> next_dy{};
  Pack<T, V> next_x{};
  const auto fetch = [&](std::int64_t row) {
    if (!mine || row >= rows) return;
    next_dy = *reinterpret_cast<const Pack<T, V>*>(dy + row * n + column);
    next_x = *reinterpret_cast<const Pack<T, V>*>(x + row * n + column);
  };
  if (mine) load_weight(w + column, ws, rounding);
  fetch(blockIdx.x);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float inv = inv_rms[row];
    const Pack<T, V> own_dy = next_dy;
    const Pack<T, V> own_x = next_x;
    Pack<T, V> own_dsum{};
    if (mine && dsum != nullptr) own_dsum = *reinterpret_cast<const Pack<T, V>*>(dsum + row * n + column);
    fetch(row + gridDim.x);
    float dxs[V];
    float dot = 0;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const float dy_j = widen(own_dy.at[j]);
      const float x_j = widen(own_x.at[j]);
      dxs[j] = dy_j * ws[j];
      dot += dxs[j] * x_j;
      sums[j] += dy_j * normed<T>(x_j * inv, rounding);
    }
    const float correction = block_sum(dot) * inv * inv * inv / static_cast<float>(n);
#pragma unroll
    for (int j = 0; j < V; ++j)
      dxs[j] = rounded<T>(dxs[j] * inv - widen(own_x.at[j]) * correction) + widen(own_dsum.at[j]);
    if (mine) store(dx + row * n + column, dxs);
  }
  if (mine) store(partial + static_cast<std::int64_t>(blockIdx.x) * n + column, sums);
}

/// As backward_row_kernel(), of rows that are longer or lie otherwise: columns are in shared memory.
template <int V, class T>
__global__ void backward_kernel(const T* dy, const T* dsum, const T* x, const T* w, const float* inv_rms,
                                T* dx, float* partial, std::int64_t rows, std::int64_t n,
                                NormRounding rounding) {
  partial += static_cast<std::int64_t>(blockIdx.x) * n;
  float* sums = n <= kSharedColumns ? dynamic_shared<float>() : partial;
  const std::int64_t first = static_cast<std::int64_t>(threadIdx.x) * V;
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * V;
  float dys[V];
  float xs[V];
  float ws[V];
  for (std::int64_t i = first; i < n; i += step) {
    for (int j = 0; j < V; ++j) sums[i + j] = 0;
  }
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t at = row * n;
    const float inv = inv_rms[row];
    float dot = 0;
    for (std::int64_t i = first; i < n; i += step) {
      load(dy + at + i, dys);
      load(x + at + i, xs);
      load_weight(w + i, ws, rounding);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        dot += dys[j] * xs[j] * ws[j];
        sums[i + j] += dys[j] * normed<T>(xs[j] * inv, rounding);
      }
    }
    const float correction = block_sum(dot) * inv * inv * inv / static_cast<float>(n);
    for (std::int64_t i = first; i < n; i += step) {
      load(dy + at + i, dys);
      load(x + at + i, xs);
      load_weight(w + i, ws, rounding);
#pragma unroll
      for (int j = 0; j < V; ++j) dys[j] = dys[j] * ws[j] * inv - xs[j] * correction;
      if (dsum != nullptr) {
        load(dsum + at + i, xs);
#pragma unroll
        for (int j = 0; j < V; ++j) dys[j] = rounded<T>(dys[j]) + xs[j];
      }
      store(dx + at + i, dys);
    }
  }
  if (sums == partial) return;
  for (std::int64_t i = first; i < n; i += step) {
    for (int j = 0; j < V; ++j) partial[i + j] = sums[i + j];
  }
}

constexpr int kSumGroups = 8;

/// dw[i] = sum over p of partial[p][i]: eight sums over every eighth p, then their sum.
__global__ void sum_parts_kernel(const float* partial, float* dw, std::int64_t parts, std::int64_t n) {
  __shared__ float sums[kSumGroups][kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  float sum = 0;
  if (column < n) {
#pragma unroll 8
    for (std::int64_t p = threadIdx.y; p < parts; p += kSumGroups) sum += partial[p * n + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
  for (int group = 1; group < kSumGroups; ++group) sum += sums[group][threadIdx.x];
  dw[column] = sum;
}

/// Whole warps, no more than a row keeps busy.
unsigned threads_for(std::int64_t n, int vector, int most = kThreads) {
  const std::int64_t lanes = (n + vector - 1) / vector;
  return static_cast<unsigned>(std::clamp<std::int64_t>((lanes + kWarp - 1) / kWarp * kWarp, kWarp, most));
}

}  // namespace

std::int64_t rms_norm_partials(std::int64_t rows) {
  return std::min(rows, kParts);
}

cudaError_t rms_norm(DType type, const void* x, const void* added, void* sum, const void* w, void* y,
                     float* inv_rms, std::int64_t rows, std::int64_t n, float eps, NormRounding rounding,
                     cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  if (rows > kMostBlocks) return cudaErrorInvalidConfiguration;
  return with_type(type, [&](auto tag) {
    using T = decltype(tag);
    constexpr int V = kVector<T>;
    const auto* xs = static_cast<const T*>(x);
    const auto* more = static_cast<const T*>(added);
    auto* sums = static_cast<T*>(sum);
    const auto* ws = static_cast<const T*>(w);
    auto* ys = static_cast<T*>(y);
    const auto blocks = static_cast<unsigned>(rows);
    const bool wide = n % V == 0 && on_borders({x, added, sum, w, y});
    launch(wide ? forward_kernel<V, T> : forward_kernel<1, T>, {blocks, threads_for(n, wide ? V : 1), stream},
           xs, more, sums, ws, ys, inv_rms, n, eps, rounding);
    return cudaGetLastError();
  });
}

cudaError_t rms_norm_backward(DType type, const void* dy, const void* dsum, const void* x, const void* w,
                              const float* inv_rms, void* dx, float* dw, float* partial, std::int64_t rows,
                              std::int64_t n, NormRounding rounding, cudaStream_t stream) {
  const std::int64_t parts = rms_norm_partials(rows);
  if (n == 0) return cudaSuccess;
  const std::size_t shared = n <= kSharedColumns ? static_cast<std::size_t>(n) * sizeof(float) : 0;
  const cudaError_t launched = with_type(type, [&](auto tag) {
    using T = decltype(tag);
    constexpr int V = kVector<T>;
    const auto* dys = static_cast<const T*>(dy);
    const auto* more = static_cast<const T*>(dsum);
    const auto* xs = static_cast<const T*>(x);
    const auto* ws = static_cast<const T*>(w);
    auto* dxs = static_cast<T*>(dx);
    if (parts == 0) return cudaSuccess;
    const auto blocks = static_cast<unsigned>(parts);
    const bool wide = n % V == 0 && on_borders({dy, dsum, x, w, dx, partial});
    if (wide && n <= kRowThreads * V) {
      launch(backward_row_kernel<V, T>, {blocks, threads_for(n, V, kRowThreads), stream}, dys, more, xs, ws,
             inv_rms, dxs, partial, rows, n, rounding);
    } else {
      launch(wide ? backward_kernel<V, T> : backward_kernel<1, T>,
             {blocks, threads_for(n, wide ? V : 1), stream, shared}, dys, more, xs, ws, inv_rms, dxs, partial,
             rows, n, rounding);
    }
    return cudaGetLastError();
  });
  if (launched != cudaSuccess) return launched;
  const auto tiles = static_cast<unsigned>((n + kWarp - 1) / kWarp);
  launch(sum_parts_kernel, {tiles, dim3(kWarp, kSumGroups), stream}, partial, dw, parts, n);
  return cudaGetLastError();
}

}  // namespace echelon::gpu
