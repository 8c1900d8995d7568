#pragma once
#include <cstdint>

#include "base/cuda/launch.cuh"

/// Kernels with one fault each, for the test that all are found.
namespace echelon::fibers {

enum class Fault {
  kNone,
  kRaceInABlock,      ///< neighbors read what a thread writes, without a barrier between
  kBarrierAfter,      ///< there is one, but not behind the reads, before the next writes
  kRaceOfBlocks,      ///< two blocks write the same element
  kReadThenWritten,   ///< a block reads what another one writes
  kPastTheEnd,        ///< i <= n
  kPastTheEndShared,  ///< the same in shared memory
  kBeforeTheBegin,
  kUnwritten,        ///< reads device memory that nobody wrote
  kUnwrittenShared,  ///< shared memory is not zero
  kLastBlock,        ///< shared memory of the previous block
  kOwnBarrier,       ///< a barrier that half of the threads reach
  kOwnExchange,      ///< an exchange that half of a warp reaches
  kDynamicTooShort,  ///< dynamic shared memory of n - 1 elements
  kHostMemory,       ///< a pointer to the host's memory
  kUnaligned,        ///< two elements in one access, at an odd element
  kTooMuchShared,    ///< a variable that no block has room for
};

/// to[i] = from[i] + from[neighbor] for `n` elements, whole warps of one block or two, in the way that
/// `fault` says.
cudaError_t run_faulty(Fault fault, const float* from, float* to, int n);

/// to[i] = 1 for `n` elements, a multiple of 256, with an index of 32 bits.
cudaError_t run_narrow(float* to, std::int64_t n);

}  // namespace echelon::fibers
