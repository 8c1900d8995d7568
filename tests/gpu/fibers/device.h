#pragma once
// Included in front of every .cu file that a C++ compiler compiles: what nvcc knows and C++ does not. Blocks
// of a launch run one after the other, the threads of a block as fibers of one thread of the host (block.h),
// so shared memory is static memory; far apart, so that nothing lies behind the end of a variable.
#define __global__
#define __device__
#define __host__
#define __shared__ static __attribute__((aligned(4096)))
#define __launch_bounds__(...)

#include <cuda_runtime.h>

#include <bit>
#include <cmath>

#include "gpu/fibers/calls.h"

#define threadIdx (::echelon::fibers::thread_index())
#define blockIdx (::echelon::fibers::block_index())
#define blockDim (::echelon::fibers::block_size())
#define gridDim (::echelon::fibers::grid_size())

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  echelon::fibers::wait_for_block({file, line});
}
inline float __shfl_xor_sync(unsigned mask, float value, int lanes, const char* file = __builtin_FILE(),
                             int line = __builtin_LINE()) {
  const auto bits = echelon::fibers::exchange({file, line}, mask, std::bit_cast<unsigned>(value), lanes);
  return std::bit_cast<float>(static_cast<unsigned>(bits));
}
inline unsigned __shfl_xor_sync(unsigned mask, unsigned value, int lanes, const char* file = __builtin_FILE(),
                                int line = __builtin_LINE()) {
  return static_cast<unsigned>(echelon::fibers::exchange({file, line}, mask, value, lanes));
}
inline double __shfl_xor_sync(unsigned mask, double value, int lanes, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  const auto bits = std::bit_cast<unsigned long long>(value);
  return std::bit_cast<double>(echelon::fibers::exchange({file, line}, mask, bits, lanes));
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
