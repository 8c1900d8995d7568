#include "base/cuda/launch.cuh"
#include "base/cuda/pack.cuh"
#include "base/philox.h"
#include "model/cuda/block.cuh"
#include "model/cuda/gpu_kernels.h"

namespace echelon::gpu {
namespace {

constexpr std::int64_t kShared = 8;  ///< elements that share one call of Philox

template <class T>
__global__ void dropout_kernel(const T* x, T* y, std::int64_t rows, std::int64_t n,
                               kernels::DropoutValues values) {
  const std::int64_t calls = (n + kShared - 1) / kShared;
  const std::int64_t step = all_threads();  // read once: fewer registers
  for (std::int64_t i = own_index(); i < rows * calls; i += step) {
    const std::int64_t row = i / calls;
    const std::int64_t call = i % calls;
    const auto words = philox4x32(values.key, static_cast<std::uint64_t>(values.places[row] * calls + call),
                                  static_cast<std::uint64_t>(values.samples[row]));
    const std::int64_t end = n - call * kShared < kShared ? n - call * kShared : kShared;
    for (std::int64_t j = 0; j < end; ++j) {
      const std::uint32_t half = (words[j / 2] >> (16 * (j % 2))) & 0xFFFFU;
      const std::int64_t at = row * n + call * kShared + j;
      round_to(y[at], half < values.threshold ? 0.0F : widen(x[at]) * values.factor);
    }
  }
}

}  // namespace

cudaError_t dropout(DType type, const void* x, void* y, std::int64_t rows, std::int64_t n,
                    const kernels::DropoutValues& values, cudaStream_t stream) {
  if (rows == 0 || n == 0) return cudaSuccess;
  const unsigned blocks = blocks_for(rows * ((n + kShared - 1) / kShared), 1, kManyBlocks);
  return with_type(type, [&](auto tag) {
    using T = decltype(tag);
    launch(dropout_kernel<T>, {blocks, kThreads, stream}, static_cast<const T*>(x), static_cast<T*>(y), rows,
           n, values);
    return cudaGetLastError();
  });
}

}  // namespace echelon::gpu
