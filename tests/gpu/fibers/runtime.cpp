// The functions of the CUDA runtime that tests of kernels call, on Memory.
#include <cstring>

#include "gpu/fibers/block.h"
#include "gpu/fibers/findings.h"
#include "gpu/fibers/memory.h"

using echelon::fibers::find;
using echelon::fibers::Kind;
using echelon::fibers::kMostSharedAsked;
using echelon::fibers::Memory;
using echelon::fibers::Piece;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  if (which != cudaDevAttrMaxSharedMemoryPerBlockOptin || device != 0) return cudaErrorInvalidValue;
  *value = static_cast<int>(kMostSharedAsked);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute which, int value) {
  const auto bytes = static_cast<std::size_t>(value);
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize || bytes > kMostSharedAsked)
    return cudaErrorInvalidValue;
  echelon::fibers::allow_shared(kernel, bytes);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  *pointer = Memory::only().allocate(bytes);
  return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr || Memory::only().release(pointer)) return cudaSuccess;
  find(Kind::kMisused, __builtin_return_address(0), "cudaFree of what is no allocation");
  return cudaErrorInvalidValue;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  const bool in = kind == cudaMemcpyHostToDevice;
  const void* device = in ? to : from;
  Piece* piece = Memory::only().find(device, bytes);
  if (piece == nullptr) {
    find(Kind::kMisused, __builtin_return_address(0), "cudaMemcpy past an allocation");
    return cudaErrorInvalidValue;
  }
  const auto at = reinterpret_cast<std::size_t>(device);
  if (in) piece->fill(at, bytes);
  if (!in && !piece->is_full(at, bytes))
    find(Kind::kMisused, __builtin_return_address(0), "cudaMemcpy of what nobody has written");
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return echelon::fibers::take_launch_error();
}
}
