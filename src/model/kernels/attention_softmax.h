#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/kernels/chunks.h"
#include "model/kernels/kernels.h"
#include "model/kernels/softmax.h"

/// Attention's softmax over rows of scores, and its derivative. For kernels_impl.cpp and as often compiled.
namespace echelon::kernels::ECHELON_ISA {

/// Row r of the scores, of which `scores` are the n that count, becomes scores * scale + bias where there is
/// a bias; returns the scale that is left to be applied.
template <class T>
float apply_bias(T* scores, const ScoreRows& shape, std::int64_t r, std::int64_t n) {
  if (shape.bias == nullptr) return shape.scale;
  const float* bias = shape.bias + shape.begin(r) - r;
  for (const auto [begin, width] : Chunks<T>(n)) {
    const Loaded<T> from(scores + begin, width);
    Stored<T> to(scores + begin, width);
    for (std::int64_t i = 0; i < width; ++i) to.set(i, from[i] * shape.scale + bias[begin + i]);
  }
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
    log_sum_exp[r] = row.max + std::log(row.sum);
    exponentials(s, n, scale, row.max, 1.0F / row.sum);
    clear_masked(scores, shape, r);
  }
}

template <class T>
void attention_probabilities(T* scores, const float* log_sum_exp, const ScoreRows& shape) {
  for (std::int64_t r = 0; r < shape.rows; ++r, scores += shape.columns) {
    T* s = scores + shape.begin(r);
    const std::int64_t n = shape.end(r) - shape.begin(r);
    const float scale = apply_bias(s, shape, r, n);
    // exp(x - log_sum_exp) is the softmax: the saved fp32 log-sum-exp replaces the probabilities, as in
    // FlashAttention (Dao et al., 2022).
    exponentials(s, n, scale, log_sum_exp[r], 1.0F);
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
    float* to = dbias == nullptr ? nullptr : dbias + shape.begin(r) - r;
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> ps(p + begin, width);
      const Loaded<T> dps(dp + begin, width);
      if (to != nullptr) {
        for (std::int64_t i = 0; i < width; ++i) to[begin + i] += ps[i] * (dps[i] - d);
      }
      Stored<T> results(dp + begin, width);
      for (std::int64_t i = 0; i < width; ++i) results.set(i, ps[i] * (dps[i] - d) * shape.scale);
    }
    clear_masked(dprobs, shape, r);
  }
}

template <class T>
void row_dots(const T* a, const T* b, float* out, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, a += n, b += n) {
    float sum = 0;
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> as(a + begin, width);
      const Loaded<T> bs(b + begin, width);
      for (std::int64_t i = 0; i < width; ++i) sum += as[i] * bs[i];
    }
    out[r] = sum;
  }
}

}  // namespace echelon::kernels::ECHELON_ISA
