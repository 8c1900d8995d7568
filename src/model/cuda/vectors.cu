#include <cmath>

#include "base/cuda/launch.cuh"
#include "base/cuda/pack.cuh"
#include "model/cuda/block.cuh"
#include "model/cuda/gpu_kernels.h"

namespace echelon::gpu {
namespace {

__global__ void squares_kernel(const float* values, std::int64_t n, double* partial) {
  double sum = 0;
  walk<kVector<float>>(elements_to_border(values, n), n, own_index(), all_threads(),
                       [&](auto width, std::int64_t i) {
                         constexpr int W = decltype(width)::value;
                         float x[W];
                         load(values + i, x);
                         float squares = 0;
#pragma unroll
                         for (int j = 0; j < W; ++j) squares += x[j] * x[j];
                         sum += static_cast<double>(squares);
                       });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// One block.
__global__ void sum_kernel(const double* partial, unsigned count, double* result) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum;
}

/// An AdamWValues as the elements need it.
struct AdamWFactors {
  float beta1;
  float beta2;
  float eps;
  float decay;  ///< lr * weight decay
  float step_size;
  float correction2_sqrt;
  float gradient_factor;
};

__device__ inline void update(const AdamWFactors& f, float& weight, float gradient, float& m, float& v) {
  const float g = gradient * f.gradient_factor;
  weight -= f.decay * weight;
  m = fmaf(f.beta1, m, fmaf(-f.beta1, g, g));
  v = fmaf(f.beta2, v, fmaf(-f.beta2, g * g, g * g));
  weight -= f.step_size * m / (sqrtf(v) / f.correction2_sqrt + f.eps);
}

template <int V>
__global__ void adamw_kernel(AdamWFactors factors, float* weights, const float* gradient, float* exp_avg,
                             float* exp_avg_sq, std::int64_t head, std::int64_t n) {
  walk<V>(head, n, own_index(), all_threads(), [&](auto width, std::int64_t i) {
    constexpr int W = decltype(width)::value;
    float w[W];
    float g[W];
    float m[W];
    float v[W];
    load(weights + i, w);
    load(gradient + i, g);
    load(exp_avg + i, m);
    load(exp_avg_sq + i, v);
#pragma unroll
    for (int j = 0; j < W; ++j) update(factors, w[j], g[j], m[j], v[j]);
    store(weights + i, w);
    store(exp_avg + i, m);
    store(exp_avg_sq + i, v);
  });
}

template <int V, class T>
__global__ void cast_kernel(const float* from, T* to, std::int64_t head, std::int64_t n) {
  walk<V>(head, n, own_index(), all_threads(), [&](auto width, std::int64_t i) {
    float x[decltype(width)::value];
    load(from + i, x);
    store(to + i, x);
  });
}

}  // namespace

cudaError_t sum_of_squares(const float* values, std::int64_t n, double* partial, double* result,
                           cudaStream_t stream) {
  const unsigned blocks = blocks_for(n, kVector<float>, kSquaresPartials);
  if (blocks > 0) launch(squares_kernel, {blocks, kThreads, stream}, values, n, partial);
  launch(sum_kernel, {1, kThreads, stream}, partial, blocks, result);
  return cudaGetLastError();
}

cudaError_t adamw(const kernels::AdamWValues& step, float* weights, const float* gradient, float* exp_avg,
                  float* exp_avg_sq, std::int64_t n, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  const auto number = static_cast<double>(step.number);
  const AdamWFactors factors{static_cast<float>(step.beta1),
                             static_cast<float>(step.beta2),
                             static_cast<float>(step.eps),
                             static_cast<float>(step.lr * step.weight_decay),
                             static_cast<float>(step.lr / (1.0 - std::pow(step.beta1, number))),
                             static_cast<float>(std::sqrt(1.0 - std::pow(step.beta2, number))),
                             static_cast<float>(step.gradient_factor)};
  // Ranges of slices start anywhere, but mostly at the same distance from a border in all four.
  const std::int64_t head = elements_to_border(weights, n);
  constexpr int V = kVector<float>;
  const bool wide = on_borders({weights + head, gradient + head, exp_avg + head, exp_avg_sq + head});
  launch(wide ? adamw_kernel<V> : adamw_kernel<1>,
         {blocks_for(n, wide ? V : 1, kManyBlocks), kThreads, stream}, factors, weights, gradient, exp_avg,
         exp_avg_sq, wide ? head : 0, n);
  return cudaGetLastError();
}

cudaError_t cast(const float* from, DType type, void* to, std::int64_t n, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  return with_type(type, [&](auto tag) {
    using T = decltype(tag);
    auto* target = static_cast<T*>(to);
    // A pack has as many elements as an access of the wider type, so that a warp's accesses lie side by side.
    constexpr int V = kVector<float>;
    const std::int64_t head = elements_to_border(from, n);
    const bool wide = reinterpret_cast<std::uintptr_t>(target + head) % (V * sizeof(T)) == 0;
    launch(wide ? cast_kernel<V, T> : cast_kernel<1, T>,
           {blocks_for(n, wide ? V : 1, kManyBlocks), kThreads, stream}, from, target, wide ? head : 0, n);
    return cudaGetLastError();
  });
}

}  // namespace echelon::gpu
