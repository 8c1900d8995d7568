#pragma once
#ifdef __F16C__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/not_copied.h"
#include "model/kernels/elements.h"

/// Loops over rows of elements. GCC 12 vectorizes no conversion of fp16, so rows of fp16 are converted in
/// chunks with the processor's instructions where it has them (F16C: all that have AVX2). Rows of other types
/// are one chunk, converted element by element within the loop. For kernels_impl.cpp and as often compiled.
namespace echelon::kernels::ECHELON_ISA {

#ifdef __F16C__
constexpr bool kFp16InChunks = true;

inline void to_float(const Fp16* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  for (; i < n; ++i) to[i] = load(from[i]);
}
inline void from_float(const float* from, Fp16* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 value = _mm256_loadu_ps(from + i);
    // float_to_half() knows one NaN of each sign; the instruction would keep more of its bits.
    const __m256 nan = _mm256_or_ps(_mm256_and_ps(value, _mm256_set1_ps(-0.0F)),
                                    _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000)));
    const __m256 one_nan = _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(one_nan, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  for (; i < n; ++i) store(to[i], from[i]);
}
#else
constexpr bool kFp16InChunks = false;
#endif

template <class T>
void to_float(const T* from, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = load(from[i]);
}
template <class T>
void from_float(const float* from, T* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) store(to[i], from[i]);
}

/// Returns the value that an element of T keeps of `value`.
template <class T>
float rounded(float value) {
#ifdef __F16C__
  if constexpr (std::is_same_v<T, Fp16>) return _cvtsh_ss(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
#endif
  T element;
  store(element, value);
  return load(element);
}

template <class T>
constexpr bool kInChunks = false;
template <>
constexpr bool kInChunks<Fp16> = kFp16InChunks;

constexpr std::int64_t kChunk = 256;  ///< elements; a few such arrays stay in the first cache

/// Iterates over the chunks of a row of n elements. No function that takes a lambda: GCC does not always
/// inline those, and then keeps sums in memory.
template <class T>
class Chunks {
 public:
  explicit Chunks(std::int64_t n) : n_(n) {}
  struct Chunk {
    std::int64_t begin;
    std::int64_t width;
  };
  struct Iterator {
    std::int64_t begin;
    std::int64_t n;
    Chunk operator*() const { return {begin, kInChunks<T> ? std::min(kChunk, n - begin) : n}; }
    Iterator& operator++() {
      begin += kInChunks<T> ? kChunk : n;
      return *this;
    }
    bool operator!=(const Iterator& end) const { return begin < end.begin; }
  };
  [[nodiscard]] Iterator begin() const { return {0, n_}; }
  [[nodiscard]] Iterator end() const { return {n_, n_}; }

 private:
  std::int64_t n_;
};

/// The elements of a chunk as floats.
template <class T, bool = kInChunks<T>>
class Loaded {
 public:
  Loaded(const T* from, std::int64_t) : from_(from) {}
  float operator[](std::int64_t i) const { return load(from_[i]); }

 private:
  const T* from_;
};
template <class T>
class Loaded<T, true> {
 public:
  Loaded(const T* from, std::int64_t width) { to_float(from, values_, width); }
  float operator[](std::int64_t i) const { return values_[i]; }

 private:
  float values_[kChunk];
};

/// The elements of a chunk to be written, each once; they are in memory when this object's life ends.
template <class T, bool = kInChunks<T>>
class Stored {
 public:
  Stored(T* to, std::int64_t) : to_(to) {}
  void set(std::int64_t i, float value) { store(to_[i], value); }

 private:
  T* to_;
};
template <class T>
class Stored<T, true> : NotCopied {
 public:
  Stored(T* to, std::int64_t width) : to_(to), width_(width) {}
  ~Stored() { from_float(values_, to_, width_); }
  void set(std::int64_t i, float value) { values_[i] = value; }

 private:
  float values_[kChunk];
  T* to_;
  std::int64_t width_;
};

}  // namespace echelon::kernels::ECHELON_ISA
