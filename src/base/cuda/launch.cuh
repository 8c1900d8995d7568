#pragma once
#include <cuda_runtime.h>

#include <cstddef>

/// The one way in which kernels are started. nvcc makes a launch of it; in a C++ compiler's hands
/// (tests/gpu/fibers) every thread of the kernel is a function call on the host.
namespace echelon::gpu {

struct Grid {
  dim3 blocks;
  dim3 threads;
  cudaStream_t stream = nullptr;
  std::size_t shared = 0;  ///< bytes of dynamic_shared()
};

#ifdef __CUDACC__

/// Queues the kernel; its error is that of cudaGetLastError().
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Grid& grid, Arguments... arguments) {
  kernel<<<grid.blocks, grid.threads, grid.shared, grid.stream>>>(arguments...);
}

/// The block's memory whose size the launch chose, Grid::shared.
template <class T>
__device__ inline T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<T*>(bytes);
}

#else

/// Of code that is no kernel's: what it reads is not among what the kernel's threads read.
#define ECHELON_UNSEEN __attribute__((no_sanitize("thread")))

/// One thread of a kernel is thread(call).
void run_on_host(const void* kernel, const Grid& grid, void (*thread)(void* call), void* call);
void* dynamic_shared_bytes();

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Grid& grid, Arguments... arguments) {
  auto call = [=]() ECHELON_UNSEEN { kernel(arguments...); };
  const auto thread = [](void* of) ECHELON_UNSEEN { (*static_cast<decltype(call)*>(of))(); };
  run_on_host(reinterpret_cast<const void*>(kernel), grid, thread, &call);
}

template <class T>
inline T* dynamic_shared() {
  return static_cast<T*>(dynamic_shared_bytes());
}

#endif

}  // namespace echelon::gpu
