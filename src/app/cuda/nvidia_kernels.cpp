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

DType type_of(const at::Tensor& tensor, const char* what) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DType::kF32;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kHalf:
      return DType::kF16;
    default:
      throw Error::internal("GPU kernel ", what, " on ", c10::toString(tensor.scalar_type()));
  }
}

void require(bool holds, const char* what, const char* expected) {
  if (!holds) throw Error::internal("GPU kernel ", what, ": expected ", expected);
}

/// Pointer to the memory of a dense tensor.
void* memory(const at::Tensor& tensor, const char* what) {
  require(tensor.is_cuda() && tensor.is_contiguous(), what, "dense tensors on the GPU");
  return tensor.mutable_data_ptr();
}

/// Null for an undefined tensor.
void* memory_or_null(const at::Tensor& tensor, const char* what) {
  return tensor.defined() ? memory(tensor, what) : nullptr;
}

float* floats(const at::Tensor& tensor, const char* what) {
  require(tensor.scalar_type() == at::kFloat, what, "fp32");
  return static_cast<float*>(memory(tensor, what));
}

void* bf16(const at::Tensor& tensor, const char* what) {
  require(tensor.scalar_type() == at::kBFloat16, what, "bf16");
  return memory(tensor, what);
}

gpu::Fp8 fp8_of(at::ScalarType type, const char* what) {
  require(type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2, what, "e4m3 or e5m2");
  return type == at::kFloat8_e5m2 ? gpu::Fp8::kE5m2 : gpu::Fp8::kE4m3;
}

/// [batch, T, heads, d].
gpu::Heads heads_of(const at::Tensor& x, const char* what) {
  require(x.is_cuda() && x.dim() == 4 && x.stride(3) == 1, what, "heads whose elements lie side by side");
  return {x.mutable_data_ptr(), x.stride(0), x.stride(2), x.stride(1)};
}

kernels::QkvShape shape_of(const at::Tensor& q, const at::Tensor& k) {
  return {q.size(1), q.size(2), k.size(2), q.size(3)};
}

/// Makes the tensor's device current for this thread during the object's lifetime.
class OnDevice {
 public:
  explicit OnDevice(const at::Tensor& tensor) : guard_(tensor.device()) {}
  [[nodiscard]] cudaStream_t stream() const {
    return at::cuda::getCurrentCUDAStream(guard_.current_device().index()).stream();
  }

 private:
  c10::cuda::CUDAGuard guard_;
};

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
    constexpr const char* kWhat = "rms_norm";
    const OnDevice device(x);
    check_cuda(gpu::rms_norm(type_of(x, kWhat), memory(x, kWhat), memory_or_null(added, kWhat),
                             memory_or_null(sum, kWhat), memory(weight, kWhat), memory(y, kWhat),
                             floats(inv_rms, kWhat), x.size(0), x.size(1), static_cast<float>(eps), rounding,
                             device.stream()),
               kWhat);
  }

  void rms_norm_backward(const at::Tensor& dy, const at::Tensor& dsum, const at::Tensor& x,
                         const at::Tensor& weight, const at::Tensor& inv_rms, const at::Tensor& dx,
                         const at::Tensor& dw, NormRounding rounding) const override {
    constexpr const char* kWhat = "rms_norm_backward";
    const OnDevice device(x);
    const std::int64_t rows = x.size(0);
    const at::Tensor partial = at::empty({gpu::rms_norm_partials(rows), x.size(1)}, dw.options());
    check_cuda(gpu::rms_norm_backward(type_of(x, kWhat), memory(dy, kWhat), memory_or_null(dsum, kWhat),
                                      memory(x, kWhat), memory(weight, kWhat), floats(inv_rms, kWhat),
                                      memory(dx, kWhat), floats(dw, kWhat), floats(partial, kWhat), rows,
                                      x.size(1), rounding, device.stream()),
               kWhat);
  }

  void swiglu(const at::Tensor& gate_up, const at::Tensor& result) const override {
    constexpr const char* kWhat = "swiglu";
    const OnDevice device(gate_up);
    check_cuda(gpu::swiglu(type_of(gate_up, kWhat), memory(gate_up, kWhat), memory(result, kWhat),
                           result.size(0), result.size(1), device.stream()),
               kWhat);
  }

  void swiglu_backward(const at::Tensor& gate_up, const at::Tensor& dout,
                       const at::Tensor& dgate_up) const override {
    constexpr const char* kWhat = "swiglu_backward";
    const OnDevice device(gate_up);
    check_cuda(gpu::swiglu_backward(type_of(gate_up, kWhat), memory(gate_up, kWhat), memory(dout, kWhat),
                                    memory(dgate_up, kWhat), dout.size(0), dout.size(1), device.stream()),
               kWhat);
  }

  void rope_split(const at::Tensor& qkv, const at::Tensor& cos_sin, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v) const override {
    constexpr const char* kWhat = "rope_split";
    const OnDevice device(qkv);
    check_cuda(gpu::rope_split(type_of(qkv, kWhat), memory(qkv, kWhat), heads_of(q, kWhat),
                               heads_of(k, kWhat), heads_of(v, kWhat), floats(cos_sin, kWhat),
                               cos_sin.size(1), qkv.size(0), shape_of(q, k), device.stream()),
               kWhat);
  }

  void rope_merge(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor& cos_sin,
                  const at::Tensor& dqkv) const override {
    constexpr const char* kWhat = "rope_merge";
    const OnDevice device(dqkv);
    check_cuda(gpu::rope_merge(type_of(dqkv, kWhat), memory(dqkv, kWhat), heads_of(dq, kWhat),
                               heads_of(dk, kWhat), heads_of(dv, kWhat), floats(cos_sin, kWhat),
                               cos_sin.size(1), dqkv.size(0), shape_of(dq, dk), device.stream()),
               kWhat);
  }

  void cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& losses,
                     const double* scale) const override {
    constexpr const char* kWhat = "cross_entropy";
    const OnDevice device(logits);
    require(targets.scalar_type() == at::kLong, kWhat, "int64 targets");
    const float factor = scale == nullptr ? 0.0F : static_cast<float>(*scale);
    check_cuda(gpu::cross_entropy(type_of(logits, kWhat), memory(logits, kWhat),
                                  static_cast<const std::int64_t*>(memory(targets, kWhat)),
                                  floats(losses, kWhat), logits.size(0), logits.size(1),
                                  scale == nullptr ? nullptr : &factor, device.stream()),
               kWhat);
  }

  void dropout(const at::Tensor& x, const at::Tensor& y, const ops::DropoutRows& rows) const override {
    constexpr const char* kWhat = "dropout";
    const OnDevice device(x);
    const kernels::DropoutValues values{rows.key, rows.threshold, rows.factor,
                                        static_cast<const std::int64_t*>(memory(rows.samples, kWhat)),
                                        static_cast<const std::int64_t*>(memory(rows.places, kWhat))};
    check_cuda(gpu::dropout(type_of(x, kWhat), memory(x, kWhat), memory(y, kWhat), x.size(0),
                            x.numel() / x.size(0), values, device.stream()),
               kWhat);
  }

  void sum_of_squares(const at::Tensor& values, const at::Tensor& result) const override {
    constexpr const char* kWhat = "sum_of_squares";
    const OnDevice device(values);
    require(result.scalar_type() == at::kDouble, kWhat, "an fp64 result");
    const at::Tensor partial = at::empty({gpu::kSquaresPartials}, result.options());
    check_cuda(gpu::sum_of_squares(floats(values, kWhat), values.numel(),
                                   static_cast<double*>(memory(partial, kWhat)),
                                   static_cast<double*>(memory(result, kWhat)), device.stream()),
               kWhat);
  }

  void adamw(const kernels::AdamWValues& values, const at::Tensor& weights, const at::Tensor& gradient,
             const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq) const override {
    constexpr const char* kWhat = "adamw";
    const OnDevice device(weights);
    check_cuda(gpu::adamw(values, floats(weights, kWhat), floats(gradient, kWhat), floats(exp_avg, kWhat),
                          floats(exp_avg_sq, kWhat), weights.numel(), device.stream()),
               kWhat);
  }

  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const ops::Borders& queries, const ops::Borders& keys,
                    const ops::AttentionOptions& options) const override {
    const OnDevice device(q);
    if (takes_flash(q)) {
      std::optional<std::int64_t> before;
      if (options.window > 0) before = options.window - 1;
      return std::get<0>(at::_flash_attention_forward(q, k, v, queries.at, keys.at, queries.longest,
                                                      keys.longest, 0.0, options.causal, false, options.scale,
                                                      before, std::nullopt));
    }
    require(options.window == 0, "attention with a window", "a GPU of compute capability 8.0 or above");
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
    constexpr const char* kWhat = "cast";
    const OnDevice device(from);
    check_cuda(
        gpu::cast(floats(from, kWhat), type_of(to, kWhat), memory(to, kWhat), from.numel(), device.stream()),
        kWhat);
  }

  void fp8_scale(const at::Tensor& matrix, at::ScalarType type, const at::Tensor& scale) const override {
    constexpr const char* kWhat = "fp8_scale";
    const OnDevice device(matrix);
    const at::Tensor partial = at::empty({gpu::kFp8Partials}, scale.options().dtype(at::kUInt32));
    check_cuda(gpu::fp8_scale(bf16(matrix, kWhat), matrix.numel(), fp8_of(type, kWhat),
                              static_cast<std::uint32_t*>(memory(partial, kWhat)), floats(scale, kWhat),
                              device.stream()),
               kWhat);
  }

  void fp8_cast(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& rows,
                const at::Tensor& transposed) const override {
    constexpr const char* kWhat = "fp8_cast";
    const OnDevice device(matrix);
    const at::Tensor& any = rows.defined() ? rows : transposed;
    check_cuda(gpu::fp8_cast(bf16(matrix, kWhat), floats(scale, kWhat), fp8_of(any.scalar_type(), kWhat),
                             memory_or_null(rows, kWhat), memory_or_null(transposed, kWhat), matrix.size(0),
                             matrix.size(1), device.stream()),
               kWhat);
  }

  void fp8_transpose(const at::Tensor& rows, const at::Tensor& transposed) const override {
    constexpr const char* kWhat = "fp8_transpose";
    const OnDevice device(rows);
    check_cuda(gpu::fp8_transpose(memory(rows, kWhat), memory(transposed, kWhat), rows.size(0), rows.size(1),
                                  device.stream()),
               kWhat);
  }
};

}  // namespace

std::shared_ptr<const ops::DeviceKernels> make_nvidia_kernels() {
  return std::make_shared<const NvidiaKernels>();
}

}  // namespace echelon::app
