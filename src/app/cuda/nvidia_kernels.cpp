#include "app/cuda/nvidia_kernels.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAGuard.h>

#include "base/error.h"
#include "comm/nccl/cuda_resources.h"
#include "model/cuda/gpu_kernels.h"

namespace echelon::app {
namespace {

/// A call of a kernel. Makes a tensor's device current for this thread during its lifetime, and checks what
/// the kernel takes.
class Call {
 public:
  Call(const char* kernel, const at::Tensor& tensor) : kernel_(kernel), guard_(tensor.device()) {}

  [[nodiscard]] cudaStream_t stream() const {
    return at::cuda::getCurrentCUDAStream(guard_.current_device().index()).stream();
  }
  void check(cudaError_t result) const { check_cuda(result, kernel_); }
  void require(bool holds, const char* expected) const {
    if (!holds) throw Error::internal("GPU kernel ", kernel_, ": expected ", expected);
  }

  [[nodiscard]] DType type(const at::Tensor& tensor) const {
    switch (tensor.scalar_type()) {
      case at::kFloat: return DType::kF32;
      case at::kBFloat16: return DType::kBF16;
      case at::kHalf: return DType::kF16;
      default: throw Error::internal("GPU kernel ", kernel_, " on ", c10::toString(tensor.scalar_type()));
    }
  }
  /// Pointer to the memory of a dense tensor.
  [[nodiscard]] void* memory(const at::Tensor& tensor) const {
    require(tensor.is_cuda() && tensor.is_contiguous(), "dense tensors on the GPU");
    return tensor.mutable_data_ptr();
  }
  /// Null for an undefined tensor.
  [[nodiscard]] void* memory_or_null(const at::Tensor& tensor) const {
    return tensor.defined() ? memory(tensor) : nullptr;
  }
  [[nodiscard]] float* floats(const at::Tensor& tensor) const {
    require(tensor.scalar_type() == at::kFloat, "fp32");
    return static_cast<float*>(memory(tensor));
  }
  [[nodiscard]] void* bf16(const at::Tensor& tensor) const {
    require(tensor.scalar_type() == at::kBFloat16, "bf16");
    return memory(tensor);
  }
  [[nodiscard]] gpu::Fp8 fp8(at::ScalarType type) const {
    require(type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2, "e4m3 or e5m2");
    return type == at::kFloat8_e5m2 ? gpu::Fp8::kE5m2 : gpu::Fp8::kE4m3;
  }
  /// [batch, T, heads, d].
  [[nodiscard]] gpu::Heads heads(const at::Tensor& x) const {
    require(x.is_cuda() && x.dim() == 4 && x.stride(3) == 1, "heads whose elements lie side by side");
    return {x.mutable_data_ptr(), x.stride(0), x.stride(2), x.stride(1)};
  }

 private:
  const char* kernel_;
  c10::cuda::CUDAGuard guard_;
};

kernels::QkvShape shape_of(const at::Tensor& q, const at::Tensor& k) {
  return {q.size(1), q.size(2), k.size(2), q.size(3)};
}

// Values of at::native's CustomMaskType, which memory-efficient attention takes as an integer.
constexpr std::int64_t kWhole = 0;
constexpr std::int64_t kCausal = 1;

/// Returns whether flash attention supports this head size, backward included. Same condition as PyTorch's
/// own selection: GPUs with little shared memory cannot run large heads.
bool takes_flash(const at::Tensor& q) {
  constexpr std::int64_t kLargeHead = 192;
  const cudaDeviceProp& device = *at::cuda::getCurrentDeviceProperties();
  const bool roomy = device.major == 9 || device.major == 10 || (device.major == 8 && device.minor == 0);
  return q.scalar_type() != at::kFloat && device.major >= 8 && (q.size(2) <= kLargeHead || roomy);
}

class NvidiaKernels final : public ops::DeviceKernels {
 public:
  void rms_norm(const at::Tensor& x, const at::Tensor& added, const at::Tensor& sum, const at::Tensor& weight,
                const at::Tensor& y, const at::Tensor& inv_rms, double eps,
                NormRounding rounding) const override {
    const Call call("rms_norm", x);
    call.check(gpu::rms_norm(call.type(x), call.memory(x), call.memory_or_null(added),
                             call.memory_or_null(sum), call.memory(weight), call.memory(y),
                             call.floats(inv_rms), x.size(0), x.size(1), static_cast<float>(eps), rounding,
                             call.stream()));
  }

  void rms_norm_backward(const at::Tensor& dy, const at::Tensor& dsum, const at::Tensor& x,
                         const at::Tensor& weight, const at::Tensor& inv_rms, const at::Tensor& dx,
                         const at::Tensor& dw, NormRounding rounding) const override {
    const Call call("rms_norm_backward", x);
    const std::int64_t rows = x.size(0);
    const at::Tensor partial = at::empty({gpu::rms_norm_partials(rows), x.size(1)}, dw.options());
    call.check(gpu::rms_norm_backward(call.type(x), call.memory(dy), call.memory_or_null(dsum),
                                      call.memory(x), call.memory(weight), call.floats(inv_rms),
                                      call.memory(dx), call.floats(dw), call.floats(partial), rows, x.size(1),
                                      rounding, call.stream()));
  }

  void swiglu(const at::Tensor& gate_up, const at::Tensor& result) const override {
    const Call call("swiglu", gate_up);
    call.check(gpu::swiglu(call.type(gate_up), call.memory(gate_up), call.memory(result), result.size(0),
                           result.size(1), call.stream()));
  }

  void swiglu_backward(const at::Tensor& gate_up, const at::Tensor& dout,
                       const at::Tensor& dgate_up) const override {
    const Call call("swiglu_backward", gate_up);
    call.check(gpu::swiglu_backward(call.type(gate_up), call.memory(gate_up), call.memory(dout),
                                    call.memory(dgate_up), dout.size(0), dout.size(1), call.stream()));
  }

  void rope_split(const at::Tensor& qkv, const at::Tensor& cos_sin, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v) const override {
    const Call call("rope_split", qkv);
    call.check(gpu::rope_split(call.type(qkv), call.memory(qkv), call.heads(q), call.heads(k), call.heads(v),
                               call.floats(cos_sin), cos_sin.size(1), qkv.size(0), shape_of(q, k),
                               call.stream()));
  }

  void rope_merge(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor& cos_sin,
                  const at::Tensor& dqkv) const override {
    const Call call("rope_merge", dqkv);
    call.check(gpu::rope_merge(call.type(dqkv), call.memory(dqkv), call.heads(dq), call.heads(dk),
                               call.heads(dv), call.floats(cos_sin), cos_sin.size(1), dqkv.size(0),
                               shape_of(dq, dk), call.stream()));
  }

  void cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& losses,
                     const double* scale) const override {
    const Call call("cross_entropy", logits);
    call.require(targets.scalar_type() == at::kLong, "int64 targets");
    const float factor = scale == nullptr ? 0.0F : static_cast<float>(*scale);
    call.check(gpu::cross_entropy(call.type(logits), call.memory(logits),
                                  static_cast<const std::int64_t*>(call.memory(targets)), call.floats(losses),
                                  logits.size(0), logits.size(1), scale == nullptr ? nullptr : &factor,
                                  call.stream()));
  }

  void dropout(const at::Tensor& x, const at::Tensor& y, const ops::DropoutRows& rows) const override {
    const Call call("dropout", x);
    const kernels::DropoutValues values{rows.key, rows.threshold, rows.factor,
                                        static_cast<const std::int64_t*>(call.memory(rows.samples)),
                                        static_cast<const std::int64_t*>(call.memory(rows.places))};
    call.check(gpu::dropout(call.type(x), call.memory(x), call.memory(y), x.size(0), x.numel() / x.size(0),
                            values, call.stream()));
  }

  void sum_of_squares(const at::Tensor& values, const at::Tensor& result) const override {
    const Call call("sum_of_squares", values);
    call.require(result.scalar_type() == at::kDouble, "an fp64 result");
    const at::Tensor partial = at::empty({gpu::kSquaresPartials}, result.options());
    call.check(gpu::sum_of_squares(call.floats(values), values.numel(),
                                   static_cast<double*>(call.memory(partial)),
                                   static_cast<double*>(call.memory(result)), call.stream()));
  }

  void adamw(const kernels::AdamWValues& values, const at::Tensor& weights, const at::Tensor& gradient,
             const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq) const override {
    const Call call("adamw", weights);
    call.check(gpu::adamw(values, call.floats(weights), call.floats(gradient), call.floats(exp_avg),
                          call.floats(exp_avg_sq), weights.numel(), call.stream()));
  }

  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const ops::Borders& queries, const ops::Borders& keys,
                    const ops::AttentionOptions& options) const override {
    const Call call("attention with a window", q);
    if (takes_flash(q)) {
      std::optional<std::int64_t> before;
      if (options.window > 0) before = options.window - 1;
      return std::get<0>(at::_flash_attention_forward(q, k, v, queries.at, keys.at, queries.longest,
                                                      keys.longest, 0.0, options.causal, false, options.scale,
                                                      before, std::nullopt));
    }
    call.require(options.window == 0, "a GPU of compute capability 8.0 or above");
    // This kernel has no grouped heads: repeat keys and values.
    const std::int64_t group = q.size(1) / k.size(1);
    const auto by_query = [group](const at::Tensor& x) {
      return group == 1 ? x.unsqueeze(0) : x.repeat_interleave(group, 1).unsqueeze(0);
    };
    const bool trains =
        c10::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
    return std::get<0>(at::_efficient_attention_forward(q.unsqueeze(0), by_query(k), by_query(v),
                                                        std::nullopt, queries.at, keys.at, queries.longest,
                                                        keys.longest, 0.0, options.causal ? kCausal : kWhole,
                                                        trains, options.scale))
        .squeeze(0);
  }

  void product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum,
               bool accumulate) const override {
    at::Tensor to = sum;
    if (accumulate) {
      at::addmm_out(to, to, a, b, at::kFloat);
    } else {
      at::mm_out(to, a, b, at::kFloat);
    }
  }

  void cast(const at::Tensor& from, const at::Tensor& to) const override {
    const Call call("cast", from);
    call.check(gpu::cast(call.floats(from), call.type(to), call.memory(to), from.numel(), call.stream()));
  }

  void fp8_scale(const at::Tensor& matrix, at::ScalarType type, const at::Tensor& scale) const override {
    const Call call("fp8_scale", matrix);
    const at::Tensor partial = at::empty({gpu::kFp8Partials}, scale.options().dtype(at::kUInt32));
    call.check(gpu::fp8_scale(call.bf16(matrix), matrix.numel(), call.fp8(type),
                              static_cast<std::uint32_t*>(call.memory(partial)), call.floats(scale),
                              call.stream()));
  }

  void fp8_cast(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& rows,
                const at::Tensor& transposed) const override {
    const Call call("fp8_cast", matrix);
    const at::Tensor& any = rows.defined() ? rows : transposed;
    call.check(gpu::fp8_cast(call.bf16(matrix), call.floats(scale), call.fp8(any.scalar_type()),
                             call.memory_or_null(rows), call.memory_or_null(transposed), matrix.size(0),
                             matrix.size(1), call.stream()));
  }

  void fp8_transpose(const at::Tensor& rows, const at::Tensor& transposed) const override {
    const Call call("fp8_transpose", rows);
    call.check(gpu::fp8_transpose(call.memory(rows), call.memory(transposed), rows.size(0), rows.size(1),
                                  call.stream()));
  }
};

}  // namespace

std::shared_ptr<const ops::DeviceKernels> make_nvidia_kernels() {
  return std::make_shared<const NvidiaKernels>();
}

}  // namespace echelon::app
