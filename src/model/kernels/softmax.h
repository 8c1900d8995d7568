#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "model/kernels/chunks.h"
#include "model/kernels/elements.h"

/// Softmax over rows, and cross entropy. For kernels_impl.cpp and as often compiled.
namespace echelon::kernels::ECHELON_ISA {

struct RowSoftmax {
  float max;
  float sum;  ///< of exp(x - max)
};

/// Largest element, over independent lanes: IEEE rules for NaN keep the compiler from vectorizing one running
/// maximum.
template <class T>
float row_max(const T* x, std::int64_t n) {
  constexpr std::int64_t kLanes = 64;
  float lane[kLanes];
  std::fill(lane, lane + kLanes, -std::numeric_limits<float>::infinity());
  const std::int64_t whole = n - n % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const Loaded<T> xs(x + i, kLanes);
    for (std::int64_t j = 0; j < kLanes; ++j) lane[j] = xs[j] > lane[j] ? xs[j] : lane[j];
  }
  float top = *std::max_element(lane, lane + kLanes);
  for (std::int64_t i = whole; i < n; ++i) top = std::max(top, load(x[i]));
  return top;
}

template <class T>
RowSoftmax row_softmax(const T* x, std::int64_t n, float scale) {
  const float top = row_max(x, n) * scale;
  // Exponentials first, then their sum: one loop with both is not vectorized.
  constexpr std::int64_t kBlock = kInChunks<T> ? kChunk : 512;
  float block[kBlock];
  float sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t width = std::min(kBlock, n - begin);
    const Loaded<T> xs(x + begin, width);
    for (std::int64_t i = 0; i < width; ++i) block[i] = exponential(xs[i] * scale - top);
    for (std::int64_t i = 0; i < width; ++i) sum += block[i];
  }
  return {top, sum};
}

/// x[i] = exp(x[i] * scale - shift) * factor.
template <class T>
void exponentials(T* x, std::int64_t n, float scale, float shift, float factor) {
  for (const auto [begin, width] : Chunks<T>(n)) {
    const Loaded<T> xs(x + begin, width);
    Stored<T> results(x + begin, width);
    for (std::int64_t i = 0; i < width; ++i) results.set(i, exponential(xs[i] * scale - shift) * factor);
  }
}

template <class T>
float row_cross_entropy(const T* logits, std::int64_t n, std::int64_t target) {
  if (target < 0) return 0;
  const RowSoftmax row = row_softmax(logits, n, 1.0F);
  return row.max + std::log(row.sum) - load(logits[target]);
}

template <class T>
float row_softmax_cross_entropy(T* logits, std::int64_t n, std::int64_t target, float scale) {
  if (target < 0) {
    std::fill(logits, logits + n, T{});
    return 0;
  }
  const RowSoftmax row = row_softmax(logits, n, 1.0F);
  const float at_target = load(logits[target]);
  // In place: the logits of a large vocabulary are the largest tensor of a step, and their gradient
  // replaces them. Subtracting `scale` at the target completes softmax(x) - onehot(target).
  const float factor = scale / row.sum;
  exponentials(logits, n, 1.0F, row.max, factor);
  store(logits[target], exponential(at_target - row.max) * factor - scale);
  return row.max + std::log(row.sum) - at_target;
}

template <class T>
void cross_entropy(T* logits, std::int64_t rows, std::int64_t n, const std::int64_t* targets,
                   const double* scale, float* losses) {
  for (std::int64_t r = 0; r < rows; ++r, logits += n) {
    losses[r] = scale == nullptr
                    ? row_cross_entropy(logits, n, targets[r])
                    : row_softmax_cross_entropy(logits, n, targets[r], static_cast<float>(*scale));
  }
}

}  // namespace echelon::kernels::ECHELON_ISA
