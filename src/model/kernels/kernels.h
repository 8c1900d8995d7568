#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "model/kernels/anyprecision.h"
#include "model/kernels/arguments.h"
#include "model/kernels/product.h"

/// Row-wise CPU kernels behind the model's operations: fused passes where a chain of tensor operations would
/// walk the same memory several times. Compiled once per instruction set (kernels_impl.cpp); kernels() picks
/// the best one this processor has. Pure functions on caller-owned memory, single-threaded: callers split
/// rows over threads. All arithmetic is fp32 whatever the element type; sums run in a fixed order, so results
/// repeat bit for bit. A weight's gradient (`dw_sum`, `db_sum`) is left out where the pointer is null.
namespace echelon::kernels {

template <class T>
struct Table {
  /// y = x / rms(x) * w; inv_rms[r] = 1 / sqrt(mean(x^2) + eps) is kept for the backward, dense. x, y: as
  /// `shape` says. With `added`, of the same shape: sum = x + added, rounded to T, is normed instead of x.
  void (*rms_norm)(const T* x, const T* added, T* sum, const T* w, T* y, float* inv_rms,
                   const NormRows& shape, float eps, NormRounding rounding);
  /// dx, and dw_sum[n] += (fp32) the weight's gradient over these rows. dsum, the gradient of x from
  /// elsewhere, is part of dx; null: there is none.
  void (*rms_norm_backward)(const T* dy, const T* dsum, const T* x, const T* w, const float* inv_rms, T* dx,
                            float* dw_sum, const NormRows& shape, NormRounding rounding);
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
  /// dx = dy * factor where the result y of relu and dropout is above zero, else zero.
  void (*relu_backward)(const T* y, const T* dy, T* dx, std::int64_t n, float factor);
  /// losses[r] is the row's cross entropy. With `scale` the logits [rows, n] become d(loss)/d(logits) * scale
  /// in place, without it (null) they stay. targets[r] < 0: ignored row, gradient and loss are zero.
  void (*cross_entropy)(T* logits, std::int64_t rows, std::int64_t n, const std::int64_t* targets,
                        const double* scale, float* losses);
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
  /// Projection rows [first, first + count), dense in `rows` -> their heads in q [heads, seq_len, d], k and v
  /// [kv_heads, seq_len, d], with rotary embedding (Su et al., RoFormer; the rotate-half pairing of Hugging
  /// Face) on the first angles.width elements of each head of q and k.
  void (*rope_split)(const T* rows, T* q, T* k, T* v, const RowAngles& angles, std::int64_t first,
                     std::int64_t count, QkvShape shape);
  /// The transpose of rope_split: gradients of q, k, v -> gradients of the projection rows.
  void (*rope_merge)(T* rows, const T* dq, const T* dk, const T* dv, const RowAngles& angles,
                     std::int64_t first, std::int64_t count, QkvShape shape);
  /// out[n] = sum over `count` rows of `source` picked by `rows` (fp32 sum, one rounding); with `add` on top
  /// of out.
  void (*sum_rows)(const T* source, const std::int64_t* rows, std::int64_t count, T* out, std::int64_t n,
                   bool add);
  /// y = x with elements zeroed by chance and the others times values.factor. `and_relu`: negative ones
  /// become zero, too; NaN stays NaN. x, y: [rows, n].
  void (*dropout)(const T* x, T* y, std::int64_t rows, std::int64_t n, const DropoutValues& values,
                  bool and_relu);
  /// to[i] = from[i], exactly.
  void (*to_float)(const T* from, float* to, std::int64_t n);
  /// to[i] = from[i] rounded to T.
  void (*from_float)(const float* from, T* to, std::int64_t n);
  /// kernel.run(product, workspace). `workspace`: kernel.workspace(product) bytes.
  void (*product)(const ProductKernel<T>& kernel, const Product<T>& product, std::byte* workspace);
};

/// The kernels of every element type.
struct Tables {
  Table<float> f32;
  Table<Bf16> bf16;
  Table<Fp16> fp16;
  /// Sum of squares, accumulated in fp64 over fp32 partial sums of fixed blocks.
  double (*sum_of_squares)(const float* values, std::int64_t n);
  /// Elements [first, first + n) of a parameter.
  void (*initial_values)(const InitialValues& initial, std::uint64_t first, float* values, std::int64_t n);
  /// Elements [begin, end) of anyprecision_adamw().
  void (*anyprecision_adamw)(const AnyPrecisionNumbers& numbers, const AnyPrecisionArrays& arrays,
                             std::int64_t begin, std::int64_t end);
  /// Divides tasks [0, count) among threads, which call run(from, to). `equal`: the tasks call the same
  /// kernels on tensors of the same shapes. Null: at::parallel_for().
  void (*for_each_task)(std::int64_t count, bool equal,
                        const std::function<void(std::int64_t, std::int64_t)>& run);
};

/// The kernels in use: those of this processor, or what replaces them.
[[nodiscard]] const Tables& tables();
/// T: float, Bf16 or Fp16.
template <class T>
[[nodiscard]] const Table<T>& table_of(const Tables& all) {
  if constexpr (std::is_same_v<T, float>) return all.f32;
  if constexpr (std::is_same_v<T, Bf16>) return all.bf16;
  if constexpr (std::is_same_v<T, Fp16>) return all.fp16;
}
template <class T>
[[nodiscard]] const Table<T>& kernels() {
  return table_of<T>(tables());
}

/// The kernels of this processor, whatever replaces them.
[[nodiscard]] const Tables& processor_tables();
/// Replaces the kernels; null restores the processor's own. Call it before any thread computes.
void replace_kernels(const Tables* by);

/// "avx512", "avx2" or "generic".
[[nodiscard]] const char* instruction_set();

}  // namespace echelon::kernels
