#pragma once
#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "comm/communicator.h"

namespace echelon {

/// The arithmetic of the CPU collectives: element-wise reductions over one source per rank, always in the
/// order of `sources`, so that the result has the same bits on every machine type and run.

/// output[i] = scale * (s0[i] + s1[i] + ...) (+ output[i] with `accumulate`). Sources hold `count` elements
/// of fp32, bf16 or fp16; one of them may be `output` itself. Throws Error(kUsage) for other types.
void sum_scaled(std::span<const void* const> sources, DType type, float* output, std::size_t count,
                float scale, bool accumulate);

/// output[i] = s0[i] op s1[i] op ... for fp32, fp64 and int64; one source may be `output` itself. NaN wins in
/// max and min. Throws Error(kUsage) for other types.
void reduce_in_order(std::span<const void* const> sources, DType type, ReduceOp op, void* output,
                     std::size_t count);

}  // namespace echelon
