#include "model/ops/gpu_attention.h"

#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "base/str.h"
#include "model/ops/device_kernels.h"

namespace echelon::ops {
namespace {

using kernels::QkvShape;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// [batch, T, heads, d]: the order in which fused attentions keep their results, so that neither those nor
/// their gradients are copied.
at::Tensor empty_heads(std::int64_t batch, std::int64_t heads, const QkvShape& s,
                       const at::TensorOptions& options) {
  return at::empty({batch, s.seq_len, heads, s.head_dim}, options);
}

at::Tensor rows_of(const at::Tensor& gradient) {
  return gradient.stride(3) == 1 ? gradient : gradient.contiguous();
}

struct RopeSplit : torch::autograd::Function<RopeSplit> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& qkv, const at::Tensor& cos_sin,
                               QkvShape s) {
    const std::int64_t batch = qkv.size(0) / s.seq_len;
    const at::Tensor q = empty_heads(batch, s.heads, s, qkv.options());
    const at::Tensor k = empty_heads(batch, s.kv_heads, s, qkv.options());
    const at::Tensor v = empty_heads(batch, s.kv_heads, s, qkv.options());
    device_kernels().rope_split(qkv, cos_sin, q, k, v);
    ctx->save_for_backward({cos_sin});
    return {q, k, v};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor dq = rows_of(grads[0]);
    const std::int64_t heads = dq.size(2) + grads[1].size(2) + grads[2].size(2);
    at::Tensor dqkv = at::empty({dq.size(0) * dq.size(1), heads * dq.size(3)}, dq.options());
    device_kernels().rope_merge(dq, rows_of(grads[1]), rows_of(grads[2]), ctx->get_saved_variables()[0],
                                dqkv);
    return {dqkv, {}, {}};
  }
};

/// What the attention is called with: [batch, heads, T, d].
struct Operands {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  bool grouped;  ///< fewer key/value heads than query heads
};

const char* fused_name(const Operands& o) {
  switch (static_cast<at::SDPBackend>(
      at::_fused_sdp_choice(o.q, o.k, o.v, {}, 0.0, true, std::nullopt, o.grouped))) {
    case at::SDPBackend::flash_attention:
      return "flash";
    case at::SDPBackend::efficient_attention:
      return "memory-efficient";
    case at::SDPBackend::cudnn_attention:
      return "cudnn";
    default:
      return nullptr;
  }
}

/// [batch, kv_heads, T, d] -> [batch, heads, T, d], each head as often as query heads share it.
at::Tensor repeat_heads(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t group = heads / x.size(1);
  return x.transpose(1, 2)
      .unsqueeze(3)
      .expand({x.size(0), x.size(2), x.size(1), group, x.size(3)})
      .reshape({x.size(0), x.size(2), heads, x.size(3)})
      .transpose(1, 2);
}

/// What a fused attention takes, and its name. The memory-efficient one, the only one for fp32, knows no
/// groups.
const char* fit(Operands& operands) {
  const char* name = fused_name(operands);
  if (name == nullptr && operands.grouped) {
    operands = {operands.q, repeat_heads(operands.k, operands.q.size(1)),
                repeat_heads(operands.v, operands.q.size(1)), false};
    name = fused_name(operands);
  }
  if (name != nullptr) return name;
  throw Error(
      Code::kEnvironment,
      str("attention: none of PyTorch's fused kernels takes heads of ", operands.q.size(3), " elements in ",
          c10::toString(operands.q.scalar_type()), " on ", operands.q.device().str(),
          "; expected a multiple of 8 up to 256 (hidden_size / heads) and precision.param bf16, fp16 or "
          "fp32"));
}

}  // namespace

const char* attention_backend(at::Device device, at::ScalarType type, const QkvShape& shape) {
  const auto options = at::TensorOptions().dtype(type).device(device);
  const auto heads = [&](std::int64_t count) {  // backward counts: it has limits of its own
    return empty_heads(1, count, shape, options).transpose(1, 2).requires_grad_(true);
  };
  Operands operands{heads(shape.heads), heads(shape.kv_heads), heads(shape.kv_heads),
                    shape.heads != shape.kv_heads};
  return fit(operands);
}

at::Tensor gpu_attention(const at::Tensor& qkv, const at::Tensor& cos_sin, const QkvShape& shape) {
  const variable_list parts = RopeSplit::apply(qkv, cos_sin, shape);
  Operands operands{parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2),
                    shape.heads != shape.kv_heads};
  (void)fit(operands);
  const at::Tensor result = at::scaled_dot_product_attention(operands.q, operands.k, operands.v, {}, 0.0,
                                                             true, std::nullopt, operands.grouped);
  return result.transpose(1, 2).reshape({qkv.size(0), shape.heads * shape.head_dim});
}

}  // namespace echelon::ops
