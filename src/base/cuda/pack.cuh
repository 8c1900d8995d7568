#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <initializer_list>

#include "base/dtype.h"

/// How kernels see memory: elements widened to fp32, several in one access of at most 16 bytes.
namespace echelon::gpu {

constexpr int kAccessBytes = 16;
/// Elements of T in one access.
template <class T>
constexpr int kVector = kAccessBytes / static_cast<int>(sizeof(T));

__device__ inline float widen(float value) {
  return value;
}
__device__ inline float widen(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ inline float widen(__half value) {
  return __half2float(value);
}

__device__ inline void round_to(float& to, float value) {
  to = value;
}
__device__ inline void round_to(__nv_bfloat16& to, float value) {
  to = __float2bfloat16_rn(value);
}
__device__ inline void round_to(__half& to, float value) {
  to = __float2half_rn(value);
}

/// What an element of T holds of a value.
template <class T>
__device__ inline float rounded(float value) {
  T element;
  round_to(element, value);
  return widen(element);
}

template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T at[V];
};

/// V elements from `from`, which is aligned for an access of that many (at most 16 bytes each).
template <int V, class T>
__device__ inline void load(const T* from, float (&to)[V]) {
  constexpr int kWidth = V < kVector<T> ? V : kVector<T>;
  static_assert(V % kWidth == 0);
#pragma unroll
  for (int first = 0; first < V; first += kWidth) {
    const auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(from + first);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) to[first + j] = widen(pack.at[j]);
  }
}

template <int V, class T>
__device__ inline void store(T* to, const float (&from)[V]) {
  constexpr int kWidth = V < kVector<T> ? V : kVector<T>;
  static_assert(V % kWidth == 0);
#pragma unroll
  for (int first = 0; first < V; first += kWidth) {
    Pack<T, kWidth> pack;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) round_to(pack.at[j], from[first + j]);
    *reinterpret_cast<Pack<T, kWidth>*>(to + first) = pack;
  }
}

/// A number of elements known to the compiler, as an argument.
template <int W>
struct Width {
  static constexpr int value = W;
};

/// Elements from `data` to the first one at a 16-byte border, at most n.
template <class T>
__host__ __device__ inline std::int64_t elements_to_border(const T* data, std::int64_t n) {
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data) % kAccessBytes);
  const std::int64_t head = past == 0 ? 0 : (kAccessBytes - past) / static_cast<std::int64_t>(sizeof(T));
  return head < n ? head : n;
}

/// Calls f(Width<W>{}, i) until [0, n) is covered by all threads `first`, `first` + 1, ... of `step`: single
/// elements up to `head`, packs of V from there, single ones at the end.
template <int V, class F>
__device__ inline void walk(std::int64_t head, std::int64_t n, std::int64_t first, std::int64_t step, F f) {
  const std::int64_t packs = (n - head) / V;
  for (std::int64_t i = first; i < head; i += step) f(Width<1>{}, i);
  for (std::int64_t p = first; p < packs; p += step) f(Width<V>{}, head + p * V);
  for (std::int64_t i = head + packs * V + first; i < n; i += step) f(Width<1>{}, i);
}

/// May all of these be read and written in whole accesses?
inline bool on_borders(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % kAccessBytes != 0) return false;
  }
  return true;
}

/// Calls f(T{}) with the element type that `type` names.
template <class F>
inline cudaError_t with_type(DType type, F f) {
  switch (type) {
    case DType::kF32: return f(float{});
    case DType::kBF16: return f(__nv_bfloat16{});
    case DType::kF16: return f(__half{});
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace echelon::gpu
