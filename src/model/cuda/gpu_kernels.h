#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "base/dtype.h"
#include "model/kernels/arguments.h"

/// The kernels behind the model's operations on a GPU; the arithmetic is that of the CPU table
/// (model/kernels/kernels.h): fp32 whatever the element type, results rounded as there. Every function queues
/// its work on `stream` and returns the launch's error; nothing waits for the host. Pointers are device
/// memory, row-major and dense unless said otherwise; `type` is fp32, bf16 or fp16, anything else gives
/// cudaErrorInvalidValue. Any number of rows and columns, any alignment: 16-byte accesses are used where
/// pointers and lengths allow. All sums have a fixed order that depends on sizes and alignments alone: same
/// input, same bits, on any device of one compute capability. Plain C++17: no libtorch.
namespace echelon::gpu {

/// y = x / rms(x) * w; inv_rms[r] = 1 / sqrt(mean(x^2) + eps). x, y: [rows, n]. With `added`, of that shape:
/// sum = x + added is normed instead of x.
[[nodiscard]] cudaError_t rms_norm(DType type, const void* x, const void* added, void* sum, const void* w,
                                   void* y, float* inv_rms, std::int64_t rows, std::int64_t n, float eps,
                                   NormRounding rounding, cudaStream_t stream);

/// Rows of `partial` that rms_norm_backward needs.
[[nodiscard]] std::int64_t rms_norm_partials(std::int64_t rows);
/// dx, and dw[n] = the weight's gradient over all rows, fp32. dsum, the gradient of x from elsewhere, is part
/// of dx; null: there is none. partial: fp32 [rms_norm_partials(rows), n], overwritten.
[[nodiscard]] cudaError_t rms_norm_backward(DType type, const void* dy, const void* dsum, const void* x,
                                            const void* w, const float* inv_rms, void* dx, float* dw,
                                            float* partial, std::int64_t rows, std::int64_t n,
                                            NormRounding rounding, cudaStream_t stream);

/// gate_up: [rows, 2n] (gate | up); result[rows, n] = silu(gate) * up.
[[nodiscard]] cudaError_t swiglu(DType type, const void* gate_up, void* result, std::int64_t rows,
                                 std::int64_t n, cudaStream_t stream);
[[nodiscard]] cudaError_t swiglu_backward(DType type, const void* gate_up, const void* dout, void* dgate_up,
                                          std::int64_t rows, std::int64_t n, cudaStream_t stream);

/// Query, key or value heads in any layout: element (b, h, t, i) is data[b * batch + h * head + t * token +
/// i].
struct Heads {
  void* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t token = 0;
};

/// Projection rows [rows, (heads + 2 kv_heads) * head_dim], rows = batch * seq_len, -> q, k and v with rotary
/// embedding on the first `width` elements of each head of q and k. cos_sin: [>= seq_len][width] = cos (half)
/// | sin (half). head_dim and width are even.
[[nodiscard]] cudaError_t rope_split(DType type, const void* qkv, const Heads& q, const Heads& k,
                                     const Heads& v, const float* cos_sin, std::int64_t width,
                                     std::int64_t rows, const kernels::QkvShape& shape, cudaStream_t stream);
/// The transpose: gradients of q, k and v -> gradient of the projection rows.
[[nodiscard]] cudaError_t rope_merge(DType type, void* dqkv, const Heads& dq, const Heads& dk,
                                     const Heads& dv, const float* cos_sin, std::int64_t width,
                                     std::int64_t rows, const kernels::QkvShape& shape, cudaStream_t stream);

/// losses[r] = the row's cross entropy. With `scale` the logits [rows, n] become d(loss)/d(logits) * scale in
/// place, without it (null, a host pointer) they stay. target < 0: ignored row, gradient and loss are zero;
/// target >= n: the loss is NaN.
[[nodiscard]] cudaError_t cross_entropy(DType type, void* logits, const std::int64_t* targets, float* losses,
                                        std::int64_t rows, std::int64_t n, const float* scale,
                                        cudaStream_t stream);

/// kernels::Table::dropout without relu. x, y: [rows, n]; the arrays of `values` are on the device.
[[nodiscard]] cudaError_t dropout(DType type, const void* x, void* y, std::int64_t rows, std::int64_t n,
                                  const kernels::DropoutValues& values, cudaStream_t stream);

/// fp64 elements of `partial` that sum_of_squares needs.
inline constexpr std::int64_t kSquaresPartials = 1024;
/// *result = sum of values[i]^2, accumulated in fp64 over fp32 sums of at most four. Not finite when an
/// element is not. partial: fp64 [kSquaresPartials], overwritten.
[[nodiscard]] cudaError_t sum_of_squares(const float* values, std::int64_t n, double* partial, double* result,
                                         cudaStream_t stream);

/// One AdamW update, with the element arithmetic of PyTorch's fused kernel in fp32; the bias corrections come
/// from fp64, as in its CPU kernel. All slices: fp32 [n].
[[nodiscard]] cudaError_t adamw(const kernels::AdamWValues& step, float* weights, const float* gradient,
                                float* exp_avg, float* exp_avg_sq, std::int64_t n, cudaStream_t stream);

/// to[i] = from[i] rounded to `type` (to nearest even).
[[nodiscard]] cudaError_t cast(const float* from, DType type, void* to, std::int64_t n, cudaStream_t stream);

/// Types of eight bits, by their bits of exponent and mantissa.
enum class Fp8 : std::uint8_t { kE4m3, kE5m2 };

/// Elements of `partial` that fp8_scale needs.
inline constexpr std::int64_t kFp8Partials = 1024;
/// scale[0] = largest value of the type / largest magnitude of bf16 values[n] (at least 1e-12), in fp64,
/// rounded once; scale[1] = 1 / scale[0]. With an infinity scale[0] is 0, with a NaN it is NaN.
[[nodiscard]] cudaError_t fp8_scale(const void* values, std::int64_t n, Fp8 type, std::uint32_t* partial,
                                    float* scale, cudaStream_t stream);

/// bf16 values[rows, n] * *scale, rounded to nearest even and out of range to the largest of the type: as
/// `plain` [rows, n], and as `turned`, the transpose, with zeros behind the rows up to a multiple of 16.
/// Null: not wanted. n is a multiple of 16; `plain` and `turned` lie at 16-byte borders.
[[nodiscard]] cudaError_t fp8_cast(const void* values, const float* scale, Fp8 type, void* plain,
                                   void* turned, std::int64_t rows, std::int64_t n, cudaStream_t stream);
/// turned [n, rows], of elements of eight bits, becomes the transpose of plain [rows, n]. Both sizes are
/// multiples of 16, and both matrices lie at 16-byte borders.
[[nodiscard]] cudaError_t fp8_transpose(const void* plain, void* turned, std::int64_t rows, std::int64_t n,
                                        cudaStream_t stream);

}  // namespace echelon::gpu
