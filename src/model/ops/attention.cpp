#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "model/ops/access.h"
#include "model/ops/gpu_attention.h"
#include "model/ops/ops.h"
#include "model/ops/product.h"

namespace echelon::ops {
namespace {

using kernels::QkvShape;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Query rows handled together (per head of a group). Small enough that a group's scores stay in the cache
/// and the masked half is skipped, large enough for the matrix products to run at full speed.
constexpr std::int64_t kQueryBlock = 128;

/// q, k, v of one batch: [batch, kv_heads, group, T, d] and [batch, kv_heads, T, d].
struct Heads {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

std::int64_t group_of(const QkvShape& shape) {
  return shape.heads / shape.kv_heads;
}

Heads empty_heads(std::int64_t batch, const QkvShape& s, const at::TensorOptions& options) {
  return {at::empty({batch, s.kv_heads, group_of(s), s.seq_len, s.head_dim}, options),
          at::empty({batch, s.kv_heads, s.seq_len, s.head_dim}, options),
          at::empty({batch, s.kv_heads, s.seq_len, s.head_dim}, options)};
}

/// Runs row_kernel(projection row index, sample's q, k, v pointers, position) for every token.
template <class T, class RowKernel>
void for_each_token(const Heads& heads, const QkvShape& s, const RowKernel& row_kernel) {
  const std::int64_t q_stride = s.heads * s.seq_len * s.head_dim;
  const std::int64_t kv_stride = s.kv_heads * s.seq_len * s.head_dim;
  at::parallel_for(0, heads.q.size(0) * s.seq_len, 32, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t r = from; r < to; ++r) {
      const std::int64_t b = r / s.seq_len;
      row_kernel(r, out<T>(heads.q) + b * q_stride, out<T>(heads.k) + b * kv_stride,
                 out<T>(heads.v) + b * kv_stride, r % s.seq_len);
    }
  });
}

Heads split(const at::Tensor& qkv, const at::Tensor& cos_sin, const QkvShape& s) {
  const Heads heads = empty_heads(qkv.size(0) / s.seq_len, s, qkv.options());
  visit(qkv.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_token<T>(heads, s, [&](std::int64_t r, T* q, T* k, T* v, std::int64_t position) {
      kernels::kernels<T>().rope_split(in<T>(qkv) + r * qkv.size(1), q, k, v, in<float>(cos_sin), position,
                                       s);
    });
  });
  return heads;
}

at::Tensor merge(const Heads& grads, const at::Tensor& cos_sin, const QkvShape& s) {
  at::Tensor dqkv =
      at::empty({grads.q.size(0) * s.seq_len, (s.heads + 2 * s.kv_heads) * s.head_dim}, grads.q.options());
  visit(dqkv.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_token<T>(grads, s,
                      [&](std::int64_t r, const T* q, const T* k, const T* v, std::int64_t position) {
                        kernels::kernels<T>().rope_merge(out<T>(dqkv) + r * dqkv.size(1), q, k, v,
                                                         in<float>(cos_sin), position, s);
                      });
  });
  return dqkv;
}

/// One (sample, key/value head) and its group of query heads; all views.
struct Group {
  at::Tensor q;        ///< [group, T, d]
  at::Tensor k;        ///< [T, d]
  at::Tensor v;        ///< [T, d]
  at::Tensor out;      ///< [group, T, d], strided: the attention output or its gradient in token-major order
  float* lse;          ///< [group, T]
  std::int64_t count;  ///< group
  float scale;
};

/// Calls f(first element of head h's scores, head h, rows of the mask) for the stacked scores of a query
/// block.
template <class T, class F>
void for_each_head(at::Tensor& scores, const Group& g, std::int64_t first, std::int64_t rows, const F& f) {
  const std::int64_t columns = scores.size(1);
  for (std::int64_t h = 0; h < g.count; ++h) {
    f(out<T>(scores) + h * rows * columns, h, kernels::CausalRows{rows, columns, first});
  }
}

template <class T>
void forward_group(const Group& g) {
  const std::int64_t seq_len = g.k.size(0);
  const std::int64_t d = g.k.size(1);
  for (std::int64_t first = 0; first < seq_len; first += kQueryBlock) {
    const std::int64_t rows = std::min(kQueryBlock, seq_len - first);
    const std::int64_t columns = first + rows;
    const at::Tensor q = g.q.narrow(1, first, rows).reshape({g.count * rows, d});
    at::Tensor scores = product(q, g.k.narrow(0, 0, columns).t());
    for_each_head<T>(scores, g, first, rows, [&](T* s, std::int64_t h, kernels::CausalRows shape) {
      kernels::kernels<T>().causal_softmax(s, g.lse + h * seq_len + first, shape, g.scale);
    });
    g.out.narrow(1, first, rows).copy_(product(scores, g.v.narrow(0, 0, columns)).view({g.count, rows, d}));
  }
}

/// `g.out`: the gradient of the output; `delta` [group, T] = row dots of output and its gradient.
template <class T>
void backward_group(const Group& g, const float* delta, const at::Tensor& dq, const at::Tensor& dk,
                    const at::Tensor& dv) {
  const std::int64_t seq_len = g.k.size(0);
  const std::int64_t d = g.k.size(1);
  at::Tensor dk_sum = at::zeros({seq_len, d}, dk.options().dtype(at::kFloat));
  at::Tensor dv_sum = at::zeros_like(dk_sum);
  for (std::int64_t first = 0; first < seq_len; first += kQueryBlock) {
    const std::int64_t rows = std::min(kQueryBlock, seq_len - first);
    const std::int64_t columns = first + rows;
    const at::Tensor q = g.q.narrow(1, first, rows).reshape({g.count * rows, d});
    const at::Tensor dout = g.out.narrow(1, first, rows).reshape({g.count * rows, d});
    const at::Tensor k = g.k.narrow(0, 0, columns);
    at::Tensor probs = product(q, k.t());
    for_each_head<T>(probs, g, first, rows, [&](T* s, std::int64_t h, kernels::CausalRows shape) {
      kernels::kernels<T>().causal_probabilities(s, g.lse + h * seq_len + first, shape, g.scale);
    });
    dv_sum.narrow(0, 0, columns).add_(product(probs.t(), dout));
    at::Tensor dscores = product(dout, g.v.narrow(0, 0, columns).t());
    for_each_head<T>(dscores, g, first, rows, [&](T* s, std::int64_t h, kernels::CausalRows shape) {
      kernels::kernels<T>().causal_softmax_backward(in<T>(probs) + h * rows * columns, s,
                                                    delta + h * seq_len + first, shape, g.scale);
    });
    dq.narrow(1, first, rows).copy_(product(dscores, k).view({g.count, rows, d}));
    dk_sum.narrow(0, 0, columns).add_(product(dscores.t(), q));
  }
  dk.copy_(dk_sum);
  dv.copy_(dv_sum);
}

/// Calls f(sample, key/value head, its Group) for every pair, in parallel. `token_major`: [batch * T, heads *
/// d].
template <class F>
void for_each_group(const Heads& heads, const at::Tensor& token_major, const at::Tensor& lse,
                    const QkvShape& s, const F& f) {
  const std::int64_t batch = heads.q.size(0);
  const at::Tensor by_head =
      token_major.view({batch, s.seq_len, s.kv_heads, group_of(s), s.head_dim}).permute({0, 2, 3, 1, 4});
  const float scale = 1.0F / std::sqrt(static_cast<float>(s.head_dim));
  at::parallel_for(0, batch * s.kv_heads, 1, [&](std::int64_t from, std::int64_t to) {
    const at::NoGradGuard no_grad;
    for (std::int64_t i = from; i < to; ++i) {
      const std::int64_t b = i / s.kv_heads;
      const std::int64_t h = i % s.kv_heads;
      f(b, h,
        Group{heads.q[b][h], heads.k[b][h], heads.v[b][h], by_head[b][h],
              out<float>(lse) + i * group_of(s) * s.seq_len, group_of(s), scale});
    }
  });
}

struct CausalAttention : torch::autograd::Function<CausalAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv, const at::Tensor& cos_sin,
                            QkvShape s) {
    const Heads heads = split(qkv, cos_sin, s);
    at::Tensor result = at::empty({qkv.size(0), s.heads * s.head_dim}, qkv.options());
    at::Tensor lse = at::empty({heads.q.size(0), s.heads, s.seq_len}, qkv.options().dtype(at::kFloat));
    visit(qkv.scalar_type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for_each_group(heads, result, lse, s, [](auto, auto, const Group& g) { forward_group<T>(g); });
    });
    ctx->save_for_backward({heads.q, heads.k, heads.v, result, lse, cos_sin});
    ctx->saved_data["shape"] = std::vector<std::int64_t>{s.seq_len, s.heads, s.kv_heads, s.head_dim};
    return result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto dims = ctx->saved_data["shape"].toIntVector();
    const QkvShape s{dims[0], dims[1], dims[2], dims[3]};
    const Heads heads{saved[0], saved[1], saved[2]};
    const at::Tensor dout = grads[0].contiguous();
    const std::int64_t batch = heads.q.size(0);
    at::Tensor delta = at::empty({batch, s.seq_len, s.heads}, saved[4].options());
    const Heads dheads = empty_heads(batch, s, dout.options());
    visit(dout.scalar_type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      kernels::kernels<T>().row_dots(in<T>(dout), in<T>(saved[3]), out<float>(delta), delta.numel(),
                                     s.head_dim);
      const at::Tensor delta_by_head = delta.transpose(1, 2).contiguous();  // [batch, heads, T]
      for_each_group(heads, dout, saved[4], s, [&](std::int64_t b, std::int64_t h, const Group& g) {
        backward_group<T>(g, in<float>(delta_by_head) + (b * s.heads + h * group_of(s)) * s.seq_len,
                          dheads.q[b][h], dheads.k[b][h], dheads.v[b][h]);
      });
    });
    return {merge(dheads, saved[5], s), {}, {}};
  }
};

}  // namespace

at::Tensor causal_attention(const at::Tensor& qkv, const at::Tensor& cos_sin, QkvShape shape) {
  if (qkv.is_cuda()) return gpu_attention(qkv, cos_sin, shape);
  return CausalAttention::apply(qkv, cos_sin, shape);
}

}  // namespace echelon::ops
