#include "model/ops/gpu_attention.h"

#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "base/error.h"
#include "model/ops/device_kernels.h"

namespace echelon::ops {
namespace {

using kernels::QkvShape;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// [batch, T, heads, d]: the layout of fused attentions' results, so that neither results nor gradients are
/// copied.
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
    device_kernels(qkv)->rope_split(qkv, cos_sin, q, k, v);
    ctx->save_for_backward({cos_sin});
    return {q, k, v};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor dq = rows_of(grads[0]);
    const std::int64_t heads = dq.size(2) + grads[1].size(2) + grads[2].size(2);
    at::Tensor dqkv = at::empty({dq.size(0) * dq.size(1), heads * dq.size(3)}, dq.options());
    device_kernels(dq)->rope_merge(dq, rows_of(grads[1]), rows_of(grads[2]), ctx->get_saved_variables()[0],
                                   dqkv);
    return {dqkv, {}, {}};
  }
};

/// Arguments of the attention: [batch, heads, T, d].
struct Operands {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;

  /// Fewer key/value heads than query heads.
  [[nodiscard]] bool grouped() const { return q.size(1) != k.size(1); }
};

const char* fused_name(const Operands& o) {
  switch (static_cast<at::SDPBackend>(
      at::_fused_sdp_choice(o.q, o.k, o.v, {}, 0.0, true, std::nullopt, o.grouped()))) {
    case at::SDPBackend::flash_attention: return "flash";
    case at::SDPBackend::efficient_attention: return "memory-efficient";
    case at::SDPBackend::cudnn_attention: return "cudnn";
    default: return nullptr;
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

/// Adapts the operands to a fused attention and returns its name. The memory-efficient one, the only one for
/// fp32, does not support grouped heads.
const char* fit(Operands& operands) {
  const char* name = fused_name(operands);
  if (name == nullptr && operands.grouped()) {
    operands = {operands.q, repeat_heads(operands.k, operands.q.size(1)),
                repeat_heads(operands.v, operands.q.size(1))};
    name = fused_name(operands);
  }
  if (name != nullptr) return name;
  throw Error(Code::kEnvironment, "attention: none of PyTorch's fused kernels takes heads of ",
              operands.q.size(3), " elements in ", c10::toString(operands.q.scalar_type()), " on ",
              operands.q.device().str(),
              "; expected a multiple of 8 up to 256 (hidden_size / heads) and precision.param bf16, fp16 or "
              "fp32");
}

/// [tokens, width] -> [sequences * longest, width]. Padding repeats a sequence's last row; the copies are
/// masked, so no gradient reaches them. Both directions only select rows; index_select's own gradient would
/// add atomically.
struct Pad : torch::autograd::Function<Pad> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& rows, const SequenceLayout* sequences) {
    ctx->save_for_backward({sequences->places_in_rectangle(rows.device())});
    return rows.index_select(0, sequences->tokens_of_rectangle(rows.device()));
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0].index_select(0, ctx->get_saved_variables()[0]), {}};
  }
};

/// The inverse.
struct Unpad : torch::autograd::Function<Unpad> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& rows, const SequenceLayout* sequences) {
    const at::Device device = rows.device();
    ctx->save_for_backward({sequences->tokens_of_rectangle(device), sequences->padding_of_rectangle(device)});
    return rows.index_select(0, sequences->places_in_rectangle(device));
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    at::Tensor rows = grads[0].index_select(0, saved[0]);
    return {rows.masked_fill_(saved[1].view({-1, 1}), 0), {}};
  }
};

/// [tokens, width] -> [sequences, longest, width].
at::Tensor padded(const at::Tensor& rows, const SequenceLayout& sequences) {
  const at::Tensor all = sequences.uniform() ? rows : Pad::apply(rows, &sequences);
  return all.view({sequences.count(), sequences.longest(), rows.size(1)});
}

/// The inverse: [sequences, longest, ...] -> [tokens, width].
at::Tensor unpadded(const at::Tensor& rectangle, const SequenceLayout& sequences) {
  const at::Tensor rows = rectangle.reshape({sequences.count() * sequences.longest(), -1});
  return sequences.uniform() ? rows : Unpad::apply(rows, &sequences);
}

/// [heads, 2 * c + 1], by distance from -c -> [1, heads, queries, keys] of `type`: a query's bias for each
/// key. The gradient of a distance is the sum of a diagonal, in fp32 and in one order: index_select's would
/// be atomic additions of `type`.
struct BiasOfPairs : torch::autograd::Function<BiasOfPairs> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& bias, std::int64_t queries,
                            std::int64_t keys, const at::TensorOptions& type) {
    ctx->saved_data["distances"] = bias.size(1);
    ctx->saved_data["type"] = bias.scalar_type();
    const at::Tensor from = at::arange(queries, type.dtype(at::kLong)).unsqueeze(1);
    const at::Tensor to = at::arange(keys, type.dtype(at::kLong)).unsqueeze(0);
    const at::Tensor distance = to - from + bias.size(1) / 2;
    return bias.to(type.dtype()).index_select(1, distance.flatten()).view({1, bias.size(0), queries, keys});
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor& dy = grads[0];
    const std::int64_t heads = dy.size(1);
    const std::int64_t queries = dy.size(2);
    const std::int64_t keys = dy.size(3);
    // Rows in reverse order, each padded to `width`. Read again as rows of width - 1, row i is shifted right
    // by i, so each column holds one diagonal.
    const std::int64_t width = queries + keys;
    at::Tensor rows = at::zeros({heads, queries, width}, dy.options());
    rows.narrow(2, 0, keys).copy_(dy[0].flip(1));
    const at::Tensor diagonals = rows.view({heads, queries * width})
                                     .narrow(1, 0, queries * (width - 1))
                                     .view({heads, queries, width - 1})
                                     .sum(1, false, at::kFloat);
    const std::int64_t distances = ctx->saved_data["distances"].toInt();
    at::Tensor dbias = at::zeros({heads, distances}, diagonals.options());
    dbias.narrow(1, distances / 2 - (queries - 1), width - 1).copy_(diagonals);
    return {dbias.to(ctx->saved_data["type"].toScalarType()), {}, {}, {}};
  }
};

/// The additive mask, [sequences | 1, heads | 1, queries, keys]: the bias, and minus infinity where a query
/// must not see a key. Undefined: no mask.
at::Tensor mask_of(const SequenceLayout& queries, const SequenceLayout& keys, const AttentionOptions& options,
                   const at::Tensor& bias, const at::TensorOptions& type) {
  at::Tensor mask;
  if (bias.defined()) mask = BiasOfPairs::apply(bias, queries.longest(), keys.longest(), type);
  const at::Tensor from = at::arange(queries.longest(), type.dtype(at::kLong)).unsqueeze(1);
  const at::Tensor to = at::arange(keys.longest(), type.dtype(at::kLong)).unsqueeze(0);
  at::Tensor hidden;
  if (options.causal && (bias.defined() || options.window > 0 || !keys.uniform()))
    hidden = (to > from).view({1, 1, from.size(0), to.size(1)});
  if (options.window > 0) hidden = hidden.logical_or((to <= from - options.window).view(hidden.sizes()));
  if (!keys.uniform()) {
    const at::Tensor behind = keys.padding_of_rectangle(type.device()).view({keys.count(), 1, 1, to.size(1)});
    hidden = hidden.defined() ? hidden.logical_or(behind) : behind;
  }
  if (!hidden.defined()) return mask;
  if (!mask.defined()) mask = at::zeros({1, 1, 1, 1}, type);
  return mask.masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

/// [..., heads * d] -> [..., heads, d].
at::Tensor by_head(const at::Tensor& rows, std::int64_t heads) {
  return rows.unflatten(-1, {heads, rows.size(-1) / heads});
}

/// Projections [n * length, (heads + 2 kv_heads) * d] -> queries, keys and values, [n, length, heads of each,
/// d], the first two rotated by a table with a row for each place.
variable_list split(const at::Tensor& qkv, std::int64_t length, const AttentionOptions& o,
                    const at::Tensor& rotary) {
  if (rotary.defined())
    return RopeSplit::apply(qkv, rotary, QkvShape{length, o.heads, o.kv_heads, o.head_dim});
  const at::Tensor all = by_head(qkv.view({-1, length, qkv.size(1)}), o.heads + 2 * o.kv_heads);
  return all.split_with_sizes({o.heads, o.kv_heads, o.kv_heads}, 2);
}

at::Tensor attend(Operands operands, const SequenceLayout& queries, const SequenceLayout& keys,
                  const AttentionOptions& options, const at::Tensor& bias) {
  const at::Tensor mask = mask_of(queries, keys, options, bias, operands.q.options());
  if (!mask.defined() && options.causal) (void)fit(operands);
  // PyTorch does not accept an undefined tensor as "no mask".
  const auto added = mask.defined() ? std::optional<at::Tensor>(mask) : std::nullopt;
  const at::Tensor result =
      at::scaled_dot_product_attention(operands.q, operands.k, operands.v, added, 0.0,
                                       options.causal && !mask.defined(), options.scale, operands.grouped());
  return unpadded(result.transpose(1, 2), queries);
}

/// True if sequences of different lengths can be attended to without padding (varlen flash attention's
/// limits).
bool fits_as_it_lies(const AttentionOptions& options, at::ScalarType type) {
  constexpr std::int64_t kLargest = 256;
  constexpr std::int64_t kLargestWithWindow = 192;
  if (options.window > 0) {
    // Only flash attention has a window in both directions, and not for fp32.
    return type != at::kFloat && options.head_dim % 8 == 0 && options.head_dim <= kLargestWithWindow;
  }
  return options.head_dim % 8 == 0 && options.head_dim <= kLargest;
}

/// Without a window that no sequence is longer than.
AttentionOptions without_idle_window(AttentionOptions options, const SequenceLayout& sequences) {
  if (options.window >= sequences.longest()) options.window = 0;
  return options;
}

Borders borders_of(const SequenceLayout& sequences, at::Device device) {
  return {sequences.borders(device), sequences.longest()};
}

at::Tensor attend_as_it_lies(const at::Tensor& qkv, const SequenceLayout& sequences,
                             const AttentionOptions& options, const at::Tensor& rotary) {
  // The tokens are one long sequence here; each has the angle of its position in its own sequence.
  const variable_list parts = split(qkv, sequences.tokens(), options,
                                    rotary.defined() ? sequences.rows_at_positions(rotary) : rotary);
  const Borders borders = borders_of(sequences, qkv.device());
  return device_kernels(qkv)
      ->attend(parts[0].squeeze(0), parts[1].squeeze(0), parts[2].squeeze(0), borders, borders, options)
      .flatten(1);
}

}  // namespace

const char* attention_backend(at::Device device, at::ScalarType type, const QkvShape& shape) {
  const auto options = at::TensorOptions().dtype(type).device(device);
  const auto heads = [&](std::int64_t count) {  // requires grad, because backward has its own limits
    return empty_heads(1, count, shape, options).transpose(1, 2).requires_grad_(true);
  };
  Operands operands{heads(shape.heads), heads(shape.kv_heads), heads(shape.kv_heads)};
  return fit(operands);
}

at::Tensor gpu_self_attention(const at::Tensor& qkv, const SequenceLayout& sequences,
                              const AttentionOptions& all_options, const AttentionPositions& positions) {
  const AttentionOptions options = without_idle_window(all_options, sequences);
  const bool plain = sequences.uniform() && options.window == 0;
  if (!plain && !positions.bias.defined() && fits_as_it_lies(options, qkv.scalar_type()))
    return attend_as_it_lies(qkv, sequences, options, positions.rotary);
  const at::Tensor rectangle = padded(qkv, sequences);
  const variable_list parts =
      split(rectangle.view({-1, qkv.size(1)}), sequences.longest(), options, positions.rotary);
  return attend({parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2)}, sequences,
                sequences, options, positions.bias);
}

at::Tensor gpu_cross_attention(const at::Tensor& q, const at::Tensor& kv, const SequenceLayout& queries,
                               const SequenceLayout& keys, const AttentionOptions& options) {
  const auto keys_and_values = [&](const at::Tensor& rows) {
    return by_head(rows, 2 * options.kv_heads).split_with_sizes({options.kv_heads, options.kv_heads}, -2);
  };
  if (!(queries.uniform() && keys.uniform()) && fits_as_it_lies(options, q.scalar_type())) {
    const auto parts = keys_and_values(kv);
    return device_kernels(q)
        ->attend(by_head(q, options.heads), parts[0], parts[1], borders_of(queries, q.device()),
                 borders_of(keys, q.device()), options)
        .flatten(1);
  }
  const auto parts = keys_and_values(padded(kv, keys));
  return attend({by_head(padded(q, queries), options.heads).transpose(1, 2), parts[0].transpose(1, 2),
                 parts[1].transpose(1, 2)},
                queries, keys, options, {});
}

}  // namespace echelon::ops
