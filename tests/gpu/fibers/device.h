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
#include <type_traits>

#include "gpu/fibers/calls.h"

#define threadIdx (::echelon::fibers::thread_index())
#define blockIdx (::echelon::fibers::block_index())
#define blockDim (::echelon::fibers::block_size())
#define gridDim (::echelon::fibers::grid_size())

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  echelon::fibers::wait_for_block({file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  using Bits = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  const auto bits = echelon::fibers::exchange({file, line}, mask, std::bit_cast<Bits>(value), lanes);
  return std::bit_cast<T>(static_cast<Bits>(bits));
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
