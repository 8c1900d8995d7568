#include "base/cuda/pack.cuh"
#include "gpu/fibers/faults.h"

namespace echelon::fibers {
namespace {

constexpr int kMost = 256;

__global__ void neighbors_kernel(Fault fault, const float* from, float* to, int n) {
  __shared__ float shared[kMost];
  const int i = static_cast<int>(threadIdx.x);
  const int rounds = fault == Fault::kBarrierAfter ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    if (fault != Fault::kUnwrittenShared || i != 5) shared[i] = from[i];
    if (fault != Fault::kRaceInABlock) __syncthreads();
    to[i] = from[i] + shared[(i + 1) % n];
  }
}

__global__ void dynamic_kernel(const float* from, float* to, int n) {
  float* shared = gpu::dynamic_shared<float>();
  const int i = static_cast<int>(threadIdx.x);
  shared[i] = from[i];
  __syncthreads();
  to[i] = from[i] + shared[(i + 1) % n];
}

__global__ void global_kernel(Fault fault, const float* from, float* to, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int end = fault == Fault::kPastTheEnd ? n + 1 : n;
  if (fault == Fault::kRaceOfBlocks) {
    to[threadIdx.x] = from[threadIdx.x];
  } else if (fault == Fault::kReadThenWritten) {
    to[i] = 1.0F + (blockIdx.x > 0 ? to[threadIdx.x] : 0.0F);
  } else if (fault == Fault::kBeforeTheBegin) {
    to[i] = from[i - 1];
  } else if (i < end) {
    to[i] = from[i];
  }
}

__global__ void past_shared_kernel(const float* from, float* to, int n) {
  __shared__ float shared[kMost / 4];
  const int i = static_cast<int>(threadIdx.x);
  if (i <= n / 2) shared[i] = from[i];
  __syncthreads();
  to[i] = shared[i / 2];
}

__global__ void last_block_kernel(const float* from, float* to) {
  __shared__ float shared[1];
  if (blockIdx.x == 0 && threadIdx.x == 0) shared[0] = from[0];
  __syncthreads();
  to[blockIdx.x * blockDim.x + threadIdx.x] = shared[0];
}

__global__ void unaligned_kernel(const float* from, float* to) {
  float pair[2];
  gpu::load(from + 1, pair);
  to[threadIdx.x] = pair[0] + pair[1];
}

__global__ void large_kernel(const float* from, float* to) {
  __shared__ float shared[12289];
  shared[threadIdx.x] = from[threadIdx.x];
  to[threadIdx.x] = shared[threadIdx.x];
}

__global__ void narrow_kernel(float* to) {
  to[blockIdx.x * blockDim.x + threadIdx.x] = 1.0F;
}

__global__ void divergent_kernel(Fault fault, const float* from, float* to) {
  const int i = static_cast<int>(threadIdx.x);
  float value = from[i];
  if (i % 2 == 0) {
    if (fault == Fault::kOwnBarrier) __syncthreads();
    if (fault == Fault::kOwnExchange) value += __shfl_xor_sync(~0U, value, 1);
  }
  to[i] = value;
}

}  // namespace

cudaError_t run_faulty(Fault fault, const float* from, float* to, int n) {
  const auto threads = static_cast<unsigned>(n);
  const gpu::Grid whole{1, threads};
  const gpu::Grid halves{2, threads / 2};
  switch (fault) {
    case Fault::kRaceOfBlocks:
    case Fault::kReadThenWritten:
    case Fault::kPastTheEnd:
    case Fault::kBeforeTheBegin:
    case Fault::kUnwritten:
    case Fault::kHostMemory:
      gpu::launch(global_kernel, fault == Fault::kPastTheEnd ? gpu::Grid{3, threads / 2} : halves, fault,
                  from, to, n);
      break;
    case Fault::kPastTheEndShared: gpu::launch(past_shared_kernel, whole, from, to, n); break;
    case Fault::kLastBlock: gpu::launch(last_block_kernel, halves, from, to); break;
    case Fault::kUnaligned: gpu::launch(unaligned_kernel, whole, from, to); break;
    case Fault::kTooMuchShared: gpu::launch(large_kernel, whole, from, to); break;
    case Fault::kOwnBarrier:
    case Fault::kOwnExchange: gpu::launch(divergent_kernel, whole, fault, from, to); break;
    case Fault::kDynamicTooShort:
      gpu::launch(dynamic_kernel, gpu::Grid{1, threads, nullptr, (threads - 1) * sizeof(float)}, from, to, n);
      break;
    case Fault::kNone:
      gpu::launch(dynamic_kernel, gpu::Grid{1, threads, nullptr, threads * sizeof(float)}, from, to, n);
      gpu::launch(global_kernel, halves, fault, from, to, n);
      [[fallthrough]];
    case Fault::kRaceInABlock:
    case Fault::kBarrierAfter:
    case Fault::kUnwrittenShared: gpu::launch(neighbors_kernel, whole, fault, from, to, n); break;
  }
  return cudaGetLastError();
}

cudaError_t run_narrow(float* to, std::int64_t n) {
  gpu::launch(narrow_kernel, gpu::Grid{static_cast<unsigned>(n / kMost), kMost}, to);
  return cudaGetLastError();
}

}  // namespace echelon::fibers
