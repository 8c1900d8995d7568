#include "base/cuda/launch.cuh"
#include "base/cuda/pack.cuh"
#include "model/cuda/block.cuh"
#include "model/cuda/gpu_kernels.h"

namespace echelon::gpu {
namespace {

__device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

/// This thread's first column of its row, or past the end.
template <int V>
__device__ inline std::int64_t own_column() {
  return (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * V;
}

/// Blocks: rows along x, pieces of a row along y.
template <int V, class T>
__global__ void forward_kernel(const T* gate_up, T* result, std::int64_t n) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t i = own_column<V>();
  if (i >= n) return;
  float gate[V];
  float up[V];
  load(gate_up + row * 2 * n + i, gate);
  load(gate_up + row * 2 * n + n + i, up);
#pragma unroll
  for (int j = 0; j < V; ++j) gate[j] = gate[j] * sigmoid(gate[j]) * up[j];
  store(result + row * n + i, gate);
}

template <int V, class T>
__global__ void backward_kernel(const T* gate_up, const T* dout, T* dgate_up, std::int64_t n) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t i = own_column<V>();
  if (i >= n) return;
  float gate[V];
  float up[V];
  float d[V];
  load(gate_up + row * 2 * n + i, gate);
  load(gate_up + row * 2 * n + n + i, up);
  load(dout + row * n + i, d);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const float g = gate[j];
    const float s = sigmoid(g);
    gate[j] = d[j] * up[j] * s * (1.0F + g * (1.0F - s));
    up[j] = d[j] * g * s;
  }
  store(dgate_up + row * 2 * n + i, gate);
  store(dgate_up + row * 2 * n + n + i, up);
}

constexpr std::int64_t kMostPieces = 65535;

/// Calls launch(Width<V>, blocks) with the widest access that `aligned` and the row length allow.
template <class T, class Launch>
cudaError_t over_rows(std::int64_t rows, std::int64_t n, bool aligned, Launch launch) {
  if (rows == 0 || n == 0) return cudaSuccess;
  constexpr int V = kVector<T>;
  const bool wide = aligned && n % V == 0;
  const std::int64_t per_block = static_cast<std::int64_t>(kThreads) * (wide ? V : 1);
  const std::int64_t pieces = (n + per_block - 1) / per_block;
  if (rows > kMostBlocks || pieces > kMostPieces) return cudaErrorInvalidConfiguration;
  const dim3 blocks(static_cast<unsigned>(rows), static_cast<unsigned>(pieces));
  wide ? launch(Width<V>{}, blocks) : launch(Width<1>{}, blocks);
  return cudaGetLastError();
}

}  // namespace

cudaError_t swiglu(DType type, const void* gate_up, void* result, std::int64_t rows, std::int64_t n,
                   cudaStream_t stream) {
  return with_type(type, [&](auto tag) {
    using T = decltype(tag);
    return over_rows<T>(rows, n, on_borders({gate_up, result}), [&](auto width, dim3 blocks) {
      launch(forward_kernel<decltype(width)::value, T>, {blocks, kThreads, stream},
             static_cast<const T*>(gate_up), static_cast<T*>(result), n);
    });
  });
}

cudaError_t swiglu_backward(DType type, const void* gate_up, const void* dout, void* dgate_up,
                            std::int64_t rows, std::int64_t n, cudaStream_t stream) {
  return with_type(type, [&](auto tag) {
    using T = decltype(tag);
    return over_rows<T>(rows, n, on_borders({gate_up, dout, dgate_up}), [&](auto width, dim3 blocks) {
      launch(backward_kernel<decltype(width)::value, T>, {blocks, kThreads, stream},
             static_cast<const T*>(gate_up), static_cast<const T*>(dout), static_cast<T*>(dgate_up), n);
    });
  });
}

}  // namespace echelon::gpu
