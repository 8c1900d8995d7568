#pragma once
#include <cstdint>

#include "base/dtype.h"

/// Row-wise CPU kernels behind the model's operations: fused passes where a chain of tensor operations would
/// walk the same memory several times. Compiled once per instruction set (kernels_impl.cpp); kernels() picks
/// the best one this processor has. Pure functions on caller-owned memory, single-threaded: callers split
/// rows over threads. All arithmetic is fp32 whatever the element type; sums run in a fixed order, so results
/// repeat bit for bit. A weight's gradient (`dw_sum`, `db_sum`) is left out where the pointer is null.
namespace echelon::kernels {

/// bfloat16 as stored: the upper half of an fp32.
struct Bf16 {
  std::uint16_t bits;
};

/// fp16 as stored.
struct Fp16 {
  std::uint16_t bits;
};

/// Attention's score matrix of one head and a block of queries: row r of `scores` holds columns [0, columns),
/// of which [begin(r), end(r)) count.
struct ScoreRows {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t first;       ///< column of the key at the position of row 0's query
  bool causal;              ///< columns > first + r are masked out
  float scale;              ///< factor on the scores
  const float* bias;        ///< added to the scaled score of row r, column c is bias[c - r]; null: nothing
  std::int64_t window = 0;  ///< columns <= first + r - window are masked out too; 0: none
  [[nodiscard]] std::int64_t begin(std::int64_t row) const {
    return window == 0 || first + row < window ? 0 : first + row + 1 - window;
  }
  [[nodiscard]] std::int64_t end(std::int64_t row) const {
    return !causal || first + row + 1 > columns ? columns : first + row + 1;
  }
};

/// Geometry of a fused query/key/value projection: a row of the projection holds `heads` query heads, then
/// `kv_heads` key heads, then `kv_heads` value heads, each of `head_dim` elements. Zero heads: it has none of
/// them.
struct QkvShape {
  std::int64_t seq_len;  ///< rows of one head in q, k and v
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
};

/// The numbers of one AdamW update (Loshchilov & Hutter).
struct AdamWValues {
  std::int64_t number = 1;  ///< 1-based
  double lr = 0;
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;
  double gradient_factor = 1;  ///< gradients count as multiplied by this
};

template <class T>
struct Table {
  /// y = x / rms(x) * w; inv_rms[r] = 1 / sqrt(mean(x^2) + eps) is kept for the backward. x, y: [rows, n].
  void (*rms_norm)(const T* x, const T* w, T* y, float* inv_rms, std::int64_t rows, std::int64_t n, float eps,
                   NormRounding rounding);
  /// dx, and dw_sum[n] += (fp32) the weight's gradient over these rows.
  void (*rms_norm_backward)(const T* dy, const T* x, const T* w, const float* inv_rms, T* dx, float* dw_sum,
                            std::int64_t rows, std::int64_t n, NormRounding rounding);
  /// y = (x - mean) / deviation * w + b; statistics[2r], [2r + 1] = mean and 1 / sqrt(variance + eps) of row
  /// r are kept for the backward. x, y: [rows, n].
  void (*layer_norm)(const T* x, const T* w, const T* b, T* y, float* statistics, std::int64_t rows,
                     std::int64_t n, float eps);
  /// dx, and dw_sum[n] and db_sum[n] += (fp32) the gradients of weight and bias over these rows.
  void (*layer_norm_backward)(const T* dy, const T* x, const T* w, const float* statistics, T* dx,
                              float* dw_sum, float* db_sum, std::int64_t rows, std::int64_t n);
  /// y = gelu(x + b) in the tanh approximation (Hendrycks & Gimpel). x, y: [rows, n].
  void (*bias_gelu)(const T* x, const T* b, T* y, std::int64_t rows, std::int64_t n);
  /// dx, and db_sum[n] += (fp32) the bias' gradient over these rows.
  void (*bias_gelu_backward)(const T* dy, const T* x, const T* b, T* dx, float* db_sum, std::int64_t rows,
                             std::int64_t n);
  /// gate_up: [rows, 2n] (gate | up); out[rows, n] = silu(gate) * up.
  void (*swiglu)(const T* gate_up, T* out, std::int64_t rows, std::int64_t n);
  void (*swiglu_backward)(const T* gate_up, const T* dout, T* dgate_up, std::int64_t rows, std::int64_t n);
  /// swiglu with gelu(gate), in its approximation with tanh, instead of silu(gate).
  void (*geglu)(const T* gate_up, T* out, std::int64_t rows, std::int64_t n);
  void (*geglu_backward)(const T* gate_up, const T* dout, T* dgate_up, std::int64_t rows, std::int64_t n);
  /// x = max(x, 0) in place; NaN stays NaN.
  void (*relu)(T* x, std::int64_t n);
  /// dx = dy * factor where the result y of relu and dropout is above zero, else zero.
  void (*relu_backward)(const T* y, const T* dy, T* dx, std::int64_t n, float factor);
  /// One row of logits, in place: becomes d(loss)/d(logits) * scale. Returns the row's cross entropy
  /// (unscaled). target < 0: ignored row, gradient and result are zero.
  float (*softmax_cross_entropy)(T* logits, std::int64_t n, std::int64_t target, float scale);
  /// The row's cross entropy only.
  float (*cross_entropy)(const T* logits, std::int64_t n, std::int64_t target);
  /// scores = softmax(scores * scale + bias) in place, log_sum_exp[rows] kept for the backward; masked
  /// columns become 0.
  void (*attention_softmax)(T* scores, float* log_sum_exp, const ScoreRows& shape);
  /// Recomputed scores -> probabilities (in place), given the kept log_sum_exp.
  void (*attention_probabilities)(T* scores, const float* log_sum_exp, const ScoreRows& shape);
  /// dscores (in place over dprobs) = probs * (dprobs - delta[row]) * scale; masked columns become 0. Where
  /// `dbias` is given, laid out as shape.bias, the bias' gradient is added to it.
  void (*attention_softmax_backward)(const T* probs, T* dprobs, const float* delta, const ScoreRows& shape,
                                     float* dbias);
  /// out[row] = sum_i a[row,i] * b[row,i].
  void (*row_dots)(const T* a, const T* b, float* out, std::int64_t rows, std::int64_t n);
  /// Projection row number `row_number` -> its heads in q [heads, seq_len, d], k and v [kv_heads, seq_len,
  /// d], with rotary embedding (Su et al., RoFormer; the rotate-half pairing of Hugging Face) on q and k.
  /// angle: of the row's position, cos (half) | sin (half); null: no rotation.
  void (*rope_split)(const T* row, T* q, T* k, T* v, const float* angle, std::int64_t row_number,
                     QkvShape shape);
  /// The transpose of rope_split: gradients of q, k, v -> gradient of the projection row.
  void (*rope_merge)(T* row, const T* dq, const T* dk, const T* dv, const float* angle,
                     std::int64_t row_number, QkvShape shape);
  /// out[n] = sum over `count` rows of `source` picked by `rows` (fp32 sum, one rounding); with `add` on top
  /// of out.
  void (*sum_rows)(const T* source, const std::int64_t* rows, std::int64_t count, T* out, std::int64_t n,
                   bool add);
  /// y = x with elements zeroed by chance and the others times `factor`: element i stays where the i-th
  /// 16-bit half of the Philox words of (key, counter_high, counter_low + i / 8) is at least `threshold`.
  void (*dropout)(const T* x, T* y, std::int64_t n, std::uint64_t key, std::uint64_t counter_low,
                  std::uint64_t counter_high, std::uint32_t threshold, float factor);
  /// to[i] = from[i], exactly.
  void (*to_float)(const T* from, float* to, std::int64_t n);
  /// to[i] = from[i] rounded to T.
  void (*from_float)(const float* from, T* to, std::int64_t n);
};

/// T: float, Bf16 or Fp16.
template <class T>
[[nodiscard]] const Table<T>& kernels();

/// Sum of squares, accumulated in fp64 over fp32 partial sums of fixed blocks.
[[nodiscard]] double sum_of_squares(const float* values, std::int64_t n);

/// "avx512", "avx2" or "generic".
[[nodiscard]] const char* instruction_set();

}  // namespace echelon::kernels
