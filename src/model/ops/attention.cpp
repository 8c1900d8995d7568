#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/gpu_attention.h"
#include "model/ops/heads.h"
#include "model/ops/products/product.h"

namespace echelon::ops {
namespace {

using kernels::ScoreRows;

/// The arguments of one attention without gradients.
struct Setting {
  AttentionOptions options;
  Sequences queries;
  Sequences keys;
  at::Tensor rotary;   ///< may be undefined
  bool cross = false;  ///< queries come from another tensor than keys and values
  bool biased = false;
};

/// One (sequence, key/value head) and its group of query heads; all views.
struct Group {
  at::Tensor q;       ///< [group, T, d]
  at::Tensor k;       ///< [keys, d]
  at::Tensor v;       ///< [keys, d]
  at::Tensor out;     ///< [group, T, d], strided: the attention's output or its gradient, token-major
  float* lse;         ///< that of head h begins at lse + h * head_stride
  const float* bias;  ///< element of distance zero of the first head's; null: none
  std::int64_t head_stride;
  std::int64_t bias_stride;
  bool causal;
  std::int64_t window;  ///< as AttentionOptions
  float scale;
};

struct Block {
  std::int64_t first;      ///< query
  std::int64_t rows;       ///< queries
  std::int64_t first_key;  ///< that some of them see
  std::int64_t columns;    ///< keys from there on that some of them see

  /// Column of the key at the position of the first query.
  [[nodiscard]] std::int64_t diagonal() const { return first - first_key; }
  /// The part of all keys, or values.
  [[nodiscard]] at::Tensor seen(const at::Tensor& keys) const { return keys.narrow(0, first_key, columns); }
};

/// Calls f(Block) for the query blocks of `g`, in order.
template <class F>
void for_each_block(const Group& g, const F& f) {
  const std::int64_t queries = g.q.size(1);
  const std::int64_t keys = g.k.size(0);
  for (std::int64_t first = 0; first < queries; first += kQueryBlock) {
    const std::int64_t rows = std::min(kQueryBlock, queries - first);
    const std::int64_t first_key = g.window == 0 ? 0 : std::max<std::int64_t>(0, first + 1 - g.window);
    f(Block{first, rows, first_key, (g.causal ? first + rows : keys) - first_key});
  }
}

/// Calls f(first element of head h's scores, head h, their shape) for the stacked scores of a query block.
template <class T, class F>
void for_each_head(at::Tensor& scores, const Group& g, const Block& block, const F& f) {
  for (std::int64_t h = 0; h < g.q.size(0); ++h) {
    const float* bias = g.bias == nullptr ? nullptr : g.bias + h * g.bias_stride - block.diagonal();
    f(out<T>(scores) + h * block.rows * block.columns, h,
      ScoreRows{block.rows, block.columns, block.diagonal(), g.causal, g.scale, bias, g.window});
  }
}

at::Tensor rows_of(const at::Tensor& by_head, const Block& block) {
  return by_head.narrow(1, block.first, block.rows).reshape({by_head.size(0) * block.rows, by_head.size(2)});
}

template <class T>
void forward_group(const Group& g) {
  for_each_block(g, [&](const Block& block) {
    // One block of queries at a time, so memory grows with the length and not with its square. The group's
    // query heads are stacked into one product. A causal block needs only the keys from its first query's
    // window up to its last query.
    at::Tensor scores = product(rows_of(g.q, block), block.seen(g.k).t());
    for_each_head<T>(scores, g, block, [&](T* s, std::int64_t h, const ScoreRows& shape) {
      kernels::kernels<T>().attention_softmax(s, g.lse + h * g.head_stride + block.first, shape);
    });
    g.out.narrow(1, block.first, block.rows)
        .copy_(product(scores, block.seen(g.v)).view({g.q.size(0), block.rows, g.q.size(2)}));
  });
}

/// Destinations of a Group's gradients.
struct GroupGradients {
  at::Tensor q;  ///< [group, T, d]
  at::Tensor k;  ///< [keys, d]
  at::Tensor v;
  float* bias;  ///< element of distance zero of the first head's; null: none
};

/// `g.out`: the gradient of the output; `delta` = row dots of output and its gradient, laid out as g.lse.
template <class T>
void backward_group(const Group& g, const float* delta, const GroupGradients& to) {
  const auto& kernel = kernels::kernels<T>();
  // Summed in fp32 over the blocks: in bf16 each addition would round away part of the earlier ones.
  at::Tensor dk = at::zeros(g.k.sizes(), g.k.options().dtype(at::kFloat));
  at::Tensor dv = at::zeros_like(dk);
  for_each_block(g, [&](const Block& block) {
    const at::Tensor q = rows_of(g.q, block);
    const at::Tensor dout = rows_of(g.out, block);
    const at::Tensor k = block.seen(g.k);
    // Computed again instead of kept; then the usual five products of attention's backward pass.
    at::Tensor probs = product(q, k.t());
    for_each_head<T>(probs, g, block, [&](T* s, std::int64_t h, const ScoreRows& shape) {
      kernel.attention_probabilities(s, g.lse + h * g.head_stride + block.first, shape);
    });
    block.seen(dv).add_(product(probs.t(), dout));
    at::Tensor dscores = product(dout, block.seen(g.v).t());
    for_each_head<T>(dscores, g, block, [&](T* s, std::int64_t h, const ScoreRows& shape) {
      float* dbias = to.bias == nullptr ? nullptr : to.bias + h * g.bias_stride - block.diagonal();
      kernel.attention_softmax_backward(in<T>(probs) + h * block.rows * block.columns, s,
                                        delta + h * g.head_stride + block.first, shape, dbias);
    });
    to.q.narrow(1, block.first, block.rows)
        .copy_(product(dscores, k).view({g.q.size(0), block.rows, g.q.size(2)}));
    block.seen(dk).add_(product(dscores.t(), q));
  });
  to.k.copy_(dk);
  to.v.copy_(dv);
}

/// The tensors around one attention.
struct Operands {
  Heads heads;
  at::Tensor token_major;  ///< [tokens, heads * d]: output, or its gradient
  at::Tensor lse;          ///< fp32 [heads, tokens]
  at::Tensor bias;         ///< fp32 [heads, 2 * span - 1], or undefined
};

/// Calls f(sequence, key/value head, its Group) for every pair, in parallel.
template <class F>
void for_each_group(const Operands& o, const Setting& setting, const F& f) {
  const AttentionOptions& s = setting.options;
  const std::int64_t group = group_of(s);
  const std::int64_t tokens = setting.queries->tokens();
  const at::Tensor by_head =
      o.token_major.view({tokens, s.kv_heads, group, s.head_dim}).permute({1, 2, 0, 3});
  const std::int64_t bias_stride = o.bias.defined() ? o.bias.size(1) : 0;
  const bool equal = setting.queries->uniform() && setting.keys->uniform();
  for_each_task(setting.queries->count() * s.kv_heads, equal, [&](std::int64_t from, std::int64_t to) {
    const at::NoGradGuard no_grad;
    for (std::int64_t i = from; i < to; ++i) {
      const std::int64_t sequence = i / s.kv_heads;
      const std::int64_t h = i % s.kv_heads;
      const std::int64_t first = setting.queries->begin(sequence);
      const std::int64_t rows = setting.queries->length(sequence);
      const std::int64_t keys_at = setting.keys->begin(sequence);
      const std::int64_t keys = setting.keys->length(sequence);
      const float* bias =
          o.bias.defined() ? in<float>(o.bias) + h * group * bias_stride + bias_stride / 2 : nullptr;
      f(sequence, h,
        Group{o.heads.q[h].narrow(1, first, rows), o.heads.k[h].narrow(0, keys_at, keys),
              o.heads.v[h].narrow(0, keys_at, keys), by_head[h].narrow(1, first, rows),
              out<float>(o.lse) + h * group * tokens + first, bias, tokens, bias_stride, s.causal, s.window,
              s.scale});
    }
  });
}

struct Gradients {
  Heads heads;
  at::Tensor bias;  ///< as Operands::bias
};

/// `o.token_major`: the gradient of `result`.
Gradients attend_backward(const Operands& o, const at::Tensor& result, const Setting& setting) {
  const AttentionOptions& s = setting.options;
  const std::int64_t tokens = setting.queries->tokens();
  const std::int64_t group = group_of(s);
  Gradients gradients{empty_heads(tokens, setting.keys->tokens(), s, result.options()), {}};
  // Sequences run in parallel, so each has its own sums; they are added below in a fixed order.
  if (o.bias.defined()) {
    gradients.bias = at::zeros({setting.queries->count(), s.heads, o.bias.size(1)}, o.bias.options());
  }
  at::Tensor delta = at::empty({tokens, s.heads}, o.lse.options());
  visit(result.scalar_type(), [&]<class T>(ElementTag<T>) {
    // delta = rowsum(dO * O) equals rowsum(dP * P) and needs no pass over the scores (FlashAttention).
    kernels::kernels<T>().row_dots(in<T>(o.token_major), in<T>(result), out<float>(delta), delta.numel(),
                                   s.head_dim);
    const at::Tensor delta_by_head = delta.t().contiguous();
    for_each_group(o, setting, [&](std::int64_t sequence, std::int64_t h, const Group& g) {
      const std::int64_t first = setting.queries->begin(sequence);
      const std::int64_t keys_at = setting.keys->begin(sequence);
      float* dbias = nullptr;
      if (gradients.bias.defined()) {
        dbias =
            out<float>(gradients.bias) + (sequence * s.heads + h * group) * g.bias_stride + g.bias_stride / 2;
      }
      backward_group<T>(g, in<float>(delta_by_head) + h * group * tokens + first,
                        {gradients.heads.q[h].narrow(1, first, g.q.size(1)),
                         gradients.heads.k[h].narrow(0, keys_at, g.k.size(0)),
                         gradients.heads.v[h].narrow(0, keys_at, g.k.size(0)), dbias});
    });
  });
  if (gradients.bias.defined()) gradients.bias = gradients.bias.sum(0);
  return gradients;
}

/// Inputs: the projection of queries, keys and values, or of a cross attention that of queries and that of
/// keys and values; then the bias where there is one.
struct Attention : torch::autograd::Function<Attention> {
  static at::Tensor forward(AutogradContext* ctx, at::TensorList inputs, const Setting& setting) {
    const AttentionOptions& s = setting.options;
    const std::int64_t tokens = setting.queries->tokens();
    const at::TensorOptions type = inputs[0].options();
    Operands o{empty_heads(tokens, setting.keys->tokens(), s, type),
               at::empty({tokens, s.heads * s.head_dim}, type),
               at::empty({s.heads, tokens}, type.dtype(at::kFloat)),
               setting.biased ? inputs.back().to(at::kFloat).contiguous() : at::Tensor()};
    if (setting.cross) {
      split(Projection::kQueries, inputs[0], {}, *setting.queries, o.heads);
      split(Projection::kKeysAndValues, inputs[1], {}, *setting.keys, o.heads);
    } else {
      split(Projection::kAll, inputs[0], setting.rotary, *setting.queries, o.heads);
    }
    visit(inputs[0].scalar_type(), [&]<class T>(ElementTag<T>) {
      for_each_group(o, setting, [](auto, auto, const Group& g) { forward_group<T>(g); });
    });
    ctx->save_for_backward({o.heads.q, o.heads.k, o.heads.v, o.token_major, o.lse, o.bias});
    keep(ctx, "setting", setting);
    return o.token_major;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto& setting = kept<Setting>(ctx, "setting");
    const Operands o{{saved[0], saved[1], saved[2]}, grads[0].contiguous(), saved[4], saved[5]};
    const Gradients gradients = attend_backward(o, saved[3], setting);
    variable_list result;
    if (setting.cross) {
      result = {merge(Projection::kQueries, gradients.heads, {}, *setting.queries),
                merge(Projection::kKeysAndValues, gradients.heads, {}, *setting.keys)};
    } else {
      result = {merge(Projection::kAll, gradients.heads, setting.rotary, *setting.queries)};
    }
    if (setting.biased) result.push_back(gradients.bias);
    result.emplace_back();  // of `setting`
    return result;
  }
};

void require_rows(const char* what, const at::Tensor& x, const SequenceLayout& sequences,
                  std::int64_t width) {
  if (x.dim() == 2 && x.size(0) == sequences.tokens() && x.size(1) == width && x.is_contiguous()) return;
  throw Error::internal("attention: ", what, " is ", c10::str(x.sizes()), "; expected [", sequences.tokens(),
                        ", ", width, "], contiguous");
}

void require_bias(const AttentionPositions& positions, const SequenceLayout& sequences,
                  const AttentionOptions& options) {
  const at::Tensor& bias = positions.bias;
  if (!bias.defined() || (bias.dim() == 2 && bias.size(0) == options.heads && bias.size(1) % 2 == 1 &&
                          bias.size(1) >= 2 * sequences.longest() - 1))
    return;
  throw Error::internal("attention: bias is ", c10::str(bias.sizes()), "; expected [", options.heads,
                        ", 2 * span - 1] with span at least ", sequences.longest());
}

}  // namespace

at::Tensor self_attention(const at::Tensor& qkv, const Sequences& sequences, const AttentionOptions& options,
                          const AttentionPositions& positions) {
  require_rows("qkv", qkv, *sequences, (options.heads + 2 * options.kv_heads) * options.head_dim);
  require_bias(positions, *sequences, options);
  if (device_kernels(qkv) != nullptr) return gpu_self_attention(qkv, *sequences, options, positions);
  const bool biased = positions.bias.defined();
  variable_list inputs{qkv};
  if (biased) inputs.push_back(positions.bias);
  return Attention::apply(at::TensorList(inputs), Setting{.options = options,
                                                          .queries = sequences,
                                                          .keys = sequences,
                                                          .rotary = positions.rotary,
                                                          .biased = biased});
}

at::Tensor cross_attention(const at::Tensor& q, const at::Tensor& kv, const Sequences& queries,
                           const Sequences& keys, const AttentionOptions& options) {
  require_rows("q", q, *queries, options.heads * options.head_dim);
  require_rows("kv", kv, *keys, 2 * options.kv_heads * options.head_dim);
  if (queries->count() != keys->count() || options.causal) {
    throw Error::internal("attention: ", queries->count(), " sequences of queries and ", keys->count(),
                          " of keys; expected the same number, and options.causal false");
  }
  if (device_kernels(q) != nullptr) return gpu_cross_attention(q, kv, *queries, *keys, options);
  const variable_list inputs{q, kv};
  return Attention::apply(
      at::TensorList(inputs),
      Setting{.options = options, .queries = queries, .keys = keys, .rotary = {}, .cross = true});
}

}  // namespace echelon::ops
