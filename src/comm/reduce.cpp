#include "comm/reduce.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "base/half.h"
#include "base/vector_clones.h"

// Compiled with -ffp-contract=off (CMakeLists.txt): the vector clones for processors with FMA would otherwise
// round differently from the others.

namespace echelon {
namespace {

// Elements at a time: 8 KiB of running sums stay in the first-level cache while the sources stream through.
constexpr std::size_t kBlock = 2048;

ECHELON_VECTOR_CLONES void load_bf16(const std::uint16_t* source, float* sums, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sums[i] = bf16_to_float(source[i]);
}

ECHELON_VECTOR_CLONES void add_bf16(const std::uint16_t* source, float* sums, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += bf16_to_float(source[i]);
}

ECHELON_VECTOR_CLONES void load_fp16(const std::uint16_t* source, float* sums, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sums[i] = half_to_float(source[i]);
}

ECHELON_VECTOR_CLONES void add_fp16(const std::uint16_t* source, float* sums, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += half_to_float(source[i]);
}

ECHELON_VECTOR_CLONES void load_f32(const float* source, float* sums, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sums[i] = source[i];
}

ECHELON_VECTOR_CLONES void add_f32(const float* source, float* sums, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += source[i];
}

ECHELON_VECTOR_CLONES void store_scaled(const float* sums, float* output, std::size_t count, float scale) {
  for (std::size_t i = 0; i < count; ++i) output[i] = scale * sums[i];
}

ECHELON_VECTOR_CLONES void add_scaled(const float* sums, float* output, std::size_t count, float scale) {
  for (std::size_t i = 0; i < count; ++i) output[i] += scale * sums[i];
}

template <class T>
void add_values(void (*add)(const T*, float*, std::size_t), const void* source, std::size_t begin,
                std::size_t count, float* sums) {
  add(static_cast<const T*>(source) + begin, sums, count);
}

void add_source(const void* source, DType type, std::size_t begin, std::size_t count, bool first,
                float* sums) {
  // The first source is loaded, not added to zero: 0 + -0 would lose the sign of a negative zero, and
  // clearing would cost a pass. Widening bf16 is exact, so only the fp32 additions round.
  if (type == DType::kBF16) return add_values(first ? load_bf16 : add_bf16, source, begin, count, sums);
  if (type == DType::kF16) return add_values(first ? load_fp16 : add_fp16, source, begin, count, sums);
  add_values(first ? load_f32 : add_f32, source, begin, count, sums);
}

template <class T>
void combine(const T* source, T* result, std::size_t count, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<T>(result[i] + source[i]);
      break;
    case ReduceOp::kMax:  // x != x: NaN
      for (std::size_t i = 0; i < count; ++i) {
        result[i] = source[i] > result[i] || source[i] != source[i] ? source[i] : result[i];
      }
      break;
    case ReduceOp::kMin:
      for (std::size_t i = 0; i < count; ++i) {
        result[i] = source[i] < result[i] || source[i] != source[i] ? source[i] : result[i];
      }
      break;
  }
}

template <class T>
void reduce_typed(std::span<const void* const> sources, ReduceOp op, T* output, std::size_t count) {
  T result[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    const auto* first = static_cast<const T*>(sources[0]) + begin;
    std::copy(first, first + n, result);
    for (const void* source : sources.subspan(1))
      combine(static_cast<const T*>(source) + begin, result, n, op);
    std::copy(result, result + n, output + begin);
  }
}

}  // namespace

void sum_scaled(std::span<const void* const> sources, DType type, float* output, std::size_t count,
                float scale, bool accumulate) {
  if (type != DType::kF32 && type != DType::kBF16 && type != DType::kF16) {
    throw Error::internal("reduce-scatter of ", name_of(type), ", expected fp32, bf16 or fp16");
  }
  alignas(64) float sums[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    bool first = true;
    for (const void* source : sources) {
      add_source(source, type, begin, n, first, sums);
      first = false;
    }
    if (accumulate)
      add_scaled(sums, output + begin, n, scale);
    else
      store_scaled(sums, output + begin, n, scale);
  }
}

void reduce_in_order(std::span<const void* const> sources, DType type, ReduceOp op, void* output,
                     std::size_t count) {
  switch (type) {
    case DType::kF32: return reduce_typed(sources, op, static_cast<float*>(output), count);
    case DType::kF64: return reduce_typed(sources, op, static_cast<double*>(output), count);
    case DType::kI64: return reduce_typed(sources, op, static_cast<std::int64_t*>(output), count);
    default: throw Error::internal("all-reduce of ", name_of(type), ", expected fp32, fp64 or int64");
  }
}

}  // namespace echelon
