#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "model/kernels/kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {

/// Selects the elements of each row that dropout zeroes: kernels.h, Table::dropout, with counter_low = place
/// * ceil(width / 8) and counter_high = sample.
struct DropoutRows {
  std::uint64_t key = 0;
  std::uint32_t threshold = 0;
  float factor = 1;
  at::Tensor samples;  ///< int64 [rows]: global numbers
  at::Tensor places;   ///< int64 [rows]: of the row in its sample
};

/// Borders of concatenated sequences.
struct Borders {
  at::Tensor at;  ///< int32 [count + 1], on the device: cumulative lengths, from 0 to all rows
  std::int64_t longest = 0;
};

/// The fused kernels of a GPU: the counterpart of model/kernels on the CPU, with the same arithmetic
/// (model/cuda/gpu_kernels.h). Implemented by the plugin that is loaded where a GPU is, so that
/// nothing else links CUDA. Outputs are given by the caller; all tensors are dense and row-major unless said
/// otherwise. Work is queued on the device's current stream of the calling thread, and no function waits for
/// it. Throws Error(kUsage) for tensors it cannot take, Error(kEnvironment) when the device refuses.
/// Thread-safe.
class DeviceKernels {
 public:
  virtual ~DeviceKernels() = default;

  /// x, y: [rows, n]; inv_rms: fp32 [rows]. sum [rows, n] becomes x + added, which is normed instead of x;
  /// both undefined: x is.
  virtual void rms_norm(const at::Tensor& x, const at::Tensor& added, const at::Tensor& sum,
                        const at::Tensor& weight, const at::Tensor& y, const at::Tensor& inv_rms, double eps,
                        NormRounding rounding) const = 0;
  /// dw: fp32 [n]. dsum, the gradient of x from elsewhere, is part of dx; undefined: there is none.
  virtual void rms_norm_backward(const at::Tensor& dy, const at::Tensor& dsum, const at::Tensor& x,
                                 const at::Tensor& weight, const at::Tensor& inv_rms, const at::Tensor& dx,
                                 const at::Tensor& dw, NormRounding rounding) const = 0;

  /// gate_up: [rows, 2n] -> result [rows, n].
  virtual void swiglu(const at::Tensor& gate_up, const at::Tensor& result) const = 0;
  virtual void swiglu_backward(const at::Tensor& gate_up, const at::Tensor& dout,
                               const at::Tensor& dgate_up) const = 0;

  /// qkv: [batch * T, (heads + 2 kv_heads) * head_dim] -> q [batch, T, heads, head_dim], k and v [batch, T,
  /// kv_heads, head_dim] of any strides whose last is 1. cos_sin: fp32 [>= T, width <=
  /// head_dim]; the first `width` elements of a head turn.
  virtual void rope_split(const at::Tensor& qkv, const at::Tensor& cos_sin, const at::Tensor& q,
                          const at::Tensor& k, const at::Tensor& v) const = 0;
  /// The transpose: gradients of q, k and v -> dqkv.
  virtual void rope_merge(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv,
                          const at::Tensor& cos_sin, const at::Tensor& dqkv) const = 0;

  /// losses, fp32 [rows], from logits [rows, vocabulary] and int64 targets (negative: ignored). With `scale`
  /// the logits become their gradient times it.
  virtual void cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& losses,
                             const double* scale) const = 0;

  /// Bytes of logits that linear_cross_entropy() makes at once. The product of each chunk of them for the
  /// weight reads and writes the fp32 sum of those before, which takes as long as the product itself if
  /// chunks are small.
  [[nodiscard]] virtual std::int64_t logits_bytes() const { return std::int64_t{1} << 30; }

  /// x, y: [rows, ...].
  virtual void dropout(const at::Tensor& x, const at::Tensor& y, const DropoutRows& rows) const = 0;

  /// result, one fp64 element on the device, becomes the sum of squares of fp32 `values`.
  virtual void sum_of_squares(const at::Tensor& values, const at::Tensor& result) const = 0;

  /// Everything fp32 and 1-D; `gradient` is only read.
  virtual void adamw(const kernels::AdamWValues& values, const at::Tensor& weights,
                     const at::Tensor& gradient, const at::Tensor& exp_avg,
                     const at::Tensor& exp_avg_sq) const = 0;

  /// Attention of each sequence of `queries` to the sequence of `keys` of the same number; they lie one
  /// behind another, without padding. q: [tokens, heads, head_dim], k and v: [tokens, kv_heads, head_dim], of
  /// any strides whose last is 1; head_dim: a multiple of 8 up to 256. Only two-byte types may have a
  /// window. Returns [tokens, heads, head_dim], with gradients by autograd.
  [[nodiscard]] virtual at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                          const Borders& queries, const Borders& keys,
                                          const AttentionOptions& options) const = 0;

  /// sum, fp32 [m, n], becomes a [m, k] * b [k, n], or that is added to it. a and b: of one type, and the
  /// transpose of a dense matrix or one.
  virtual void product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum,
                       bool accumulate) const = 0;

  /// fp32 -> the type of `to`.
  virtual void cast(const at::Tensor& from, const at::Tensor& to) const = 0;

  /// scale, fp32 [2]: as ops::fp8_scale() (products/fp8_matrix.h). matrix: bf16.
  virtual void fp8_scale(const at::Tensor& matrix, at::ScalarType type, const at::Tensor& scale) const = 0;
  /// matrix, bf16 [m, n], times scale[0] in the type of eight bits of rows [m, n] and transposed [n, m up to
  /// a multiple of 16], whose end becomes zeros. One of the two may be undefined. n: a multiple of 16.
  virtual void fp8_cast(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& rows,
                        const at::Tensor& transposed) const = 0;
  /// rows [m, n], of a type of eight bits -> transposed [n, m]; both multiples of 16.
  virtual void fp8_transpose(const at::Tensor& rows, const at::Tensor& transposed) const = 0;
};

/// Installs the kernels for tensors on devices of this type, before the first computation with one. A test
/// installs them for the CPU: then every branch that a GPU takes runs there.
void install_device_kernels(std::shared_ptr<const DeviceKernels> kernels,
                            at::DeviceType device = at::DeviceType::CUDA);

/// The kernels for this tensor; null: use the CPU's. Operations decide by this alone. Throws
/// Error(kEnvironment) for a tensor on a GPU without installed kernels.
[[nodiscard]] const DeviceKernels* device_kernels(const at::Tensor& tensor);

/// Returns the one of PyTorch's fused attentions that accepts these shapes on `device`, a GPU: "flash",
/// "cudnn" or "memory-efficient". Throws Error(kEnvironment) if none does: plain products would need memory
/// for every pair of positions.
[[nodiscard]] const char* attention_backend(at::Device device, at::ScalarType type,
                                            const kernels::QkvShape& shape);

}  // namespace echelon::ops
