#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "model/kernels/elements.h"

/// Softmax over rows: cross entropy and attention. For kernels_impl.cpp and as often compiled.
namespace echelon::kernels::ECHELON_ISA {

struct RowSoftmax {
  float max;
  float sum;  ///< of exp(x - max)
};

/// Largest element, over independent lanes: IEEE rules for NaN keep the compiler from vectorising one running
/// maximum.
template <class T>
float row_max(const T* x, std::int64_t n) {
  constexpr std::int64_t kLanes = 64;
  float lane[kLanes];
  std::fill(lane, lane + kLanes, -std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const float v = load(x[i + j]);
      lane[j] = v > lane[j] ? v : lane[j];
    }
  }
  float top = *std::max_element(lane, lane + kLanes);
  for (; i < n; ++i) top = std::max(top, load(x[i]));
  return top;
}

template <class T>
RowSoftmax row_softmax(const T* x, std::int64_t n, float scale) {
  const float top = row_max(x, n) * scale;
  constexpr std::int64_t kBlock =
      512;  // exponentials first, then their sum: one loop with both is not vectorised
  float block[kBlock];
  float sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t width = std::min(kBlock, n - begin);
    for (std::int64_t i = 0; i < width; ++i) block[i] = exponential(load(x[begin + i]) * scale - top);
    for (std::int64_t i = 0; i < width; ++i) sum += block[i];
  }
  return {top, sum};
}

template <class T>
float cross_entropy(const T* logits, std::int64_t n, std::int64_t target) {
  if (target < 0) return 0;
  const RowSoftmax row = row_softmax(logits, n, 1.0F);
  return row.max + std::log(row.sum) - load(logits[target]);
}

template <class T>
float softmax_cross_entropy(T* logits, std::int64_t n, std::int64_t target, float scale) {
  if (target < 0) {
    std::fill(logits, logits + n, T{});
    return 0;
  }
  const RowSoftmax row = row_softmax(logits, n, 1.0F);
  const float at_target = load(logits[target]);
  // In place: the logits of a large vocabulary are the largest tensor of a step, and their gradient
  // replaces them. Subtracting `scale` at the target completes softmax(x) - onehot(target).
  const float factor = scale / row.sum;
  for (std::int64_t i = 0; i < n; ++i) store(logits[i], exponential(load(logits[i]) - row.max) * factor);
  store(logits[target], exponential(at_target - row.max) * factor - scale);
  return row.max + std::log(row.sum) - at_target;
}

/// Row r of the scores, of which `scores` are the n that count, becomes scores * scale + bias where there is
/// a bias; returns the scale that is left to be applied.
template <class T>
float apply_bias(T* scores, const ScoreRows& shape, std::int64_t r, std::int64_t n) {
  if (shape.bias == nullptr) return shape.scale;
  const float* bias = shape.bias + shape.begin(r) - r;
  for (std::int64_t i = 0; i < n; ++i) store(scores[i], load(scores[i]) * shape.scale + bias[i]);
  return 1.0F;
}

/// The masked columns of row r, whose first column is at `row`, become 0.
template <class T>
void clear_masked(T* row, const ScoreRows& shape, std::int64_t r) {
  std::fill(row, row + shape.begin(r), T{});
  std::fill(row + shape.end(r), row + shape.columns, T{});
}

template <class T>
void attention_softmax(T* scores, float* log_sum_exp, const ScoreRows& shape) {
  for (std::int64_t r = 0; r < shape.rows; ++r, scores += shape.columns) {
    T* s = scores + shape.begin(r);
    const std::int64_t n = shape.end(r) - shape.begin(r);
    const float scale = apply_bias(s, shape, r, n);
    const RowSoftmax row = row_softmax(s, n, scale);
    const float inv = 1.0F / row.sum;
    log_sum_exp[r] = row.max + std::log(row.sum);
    for (std::int64_t i = 0; i < n; ++i) store(s[i], exponential(load(s[i]) * scale - row.max) * inv);
    clear_masked(scores, shape, r);
  }
}

template <class T>
void attention_probabilities(T* scores, const float* log_sum_exp, const ScoreRows& shape) {
  for (std::int64_t r = 0; r < shape.rows; ++r, scores += shape.columns) {
    T* s = scores + shape.begin(r);
    const std::int64_t n = shape.end(r) - shape.begin(r);
    const float scale = apply_bias(s, shape, r, n);
    // exp(x - lse) is the softmax: the saved fp32 log-sum-exp replaces the probabilities, as in
    // FlashAttention (Dao et al., 2022).
    const float lse = log_sum_exp[r];
    for (std::int64_t i = 0; i < n; ++i) store(s[i], exponential(load(s[i]) * scale - lse));
    clear_masked(scores, shape, r);
  }
}

template <class T>
void attention_softmax_backward(const T* probs, T* dprobs, const float* delta, const ScoreRows& shape,
                                float* dbias) {
  for (std::int64_t r = 0; r < shape.rows; ++r, probs += shape.columns, dprobs += shape.columns) {
    const T* p = probs + shape.begin(r);
    T* dp = dprobs + shape.begin(r);
    const std::int64_t n = shape.end(r) - shape.begin(r);
    const float d = delta[r];
    if (dbias != nullptr) {
      float* to = dbias + shape.begin(r) - r;
      for (std::int64_t i = 0; i < n; ++i) to[i] += load(p[i]) * (load(dp[i]) - d);
    }
    for (std::int64_t i = 0; i < n; ++i) store(dp[i], load(p[i]) * (load(dp[i]) - d) * shape.scale);
    clear_masked(dprobs, shape, r);
  }
}

template <class T>
void row_dots(const T* a, const T* b, float* out, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, a += n, b += n) {
    float sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += load(a[i]) * load(b[i]);
    out[r] = sum;
  }
}

}  // namespace echelon::kernels::ECHELON_ISA
