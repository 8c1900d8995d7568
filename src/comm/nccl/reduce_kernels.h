#pragma once
#include <cuda_runtime.h>

#include <cstddef>

#include "base/dtype.h"

namespace echelon {

/// Element-wise kernels around the collectives, queued on `stream`; they return the launch's error. Pointers
/// are device memory. Arithmetic as on the CPU (comm/reduce.h): fp32, each operation rounded by itself.

/// The contributions of `size` ranks to each of `parts` sums of `count` elements. To part p, this rank's is
/// at own + p * size * count (elements), that of rank r at arrived + (p * size + r) * count.
struct Pieces {
  const void* own = nullptr;
  const void* arrived = nullptr;
  std::size_t count = 0;  ///< elements of one piece
  int rank = 0;
  int size = 1;
  int parts = 1;
};

/// output[p * count + i] = scale * (piece 0 [i] + piece 1 [i] + ...) (+ output[...] with `accumulate`), the
/// pieces of part p in rank order. `type`: bf16, fp16 or fp32, anything else gives cudaErrorInvalidValue.
[[nodiscard]] cudaError_t sum_pieces(const Pieces& pieces, DType type, float* output, float scale,
                                     bool accumulate, cudaStream_t stream);

/// to[i] = scale * from[i] (+ to[i] with `accumulate`). `from` may be `to`.
[[nodiscard]] cudaError_t scale_into(const float* from, float* to, std::size_t count, float scale,
                                     bool accumulate, cudaStream_t stream);

}  // namespace echelon
