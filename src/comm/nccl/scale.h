#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace echelon {

/// Element-wise kernels around ncclReduceScatter, queued on `stream`. Pointers are device memory.

/// to[i] = from[i] widened; bf16 given as its 16 bits.
cudaError_t widen_bf16(const std::uint16_t* from, float* to, std::size_t count, cudaStream_t stream);

/// to[i] = scale * from[i] (+ to[i] with `accumulate`). `from` may be `to`.
cudaError_t scale_into(const float* from, float* to, std::size_t count, float scale, bool accumulate,
                       cudaStream_t stream);

}  // namespace echelon
