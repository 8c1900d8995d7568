#include "model/ops/heads.h"

#include <ATen/ATen.h>

#include "model/ops/access.h"

namespace echelon::ops {
namespace {

using kernels::QkvShape;

/// Tokens per task of a thread.
constexpr std::int64_t kGrain = 32;

QkvShape query_shape(const Heads& heads) {
  return {heads.q.size(2), heads.q.size(0) * heads.q.size(1), 0, heads.q.size(3)};
}

QkvShape key_shape(const Heads& heads) {
  return {heads.k.size(1), 0, heads.k.size(0), heads.k.size(2)};
}

QkvShape self_shape(const Heads& heads) {
  return {heads.q.size(2), heads.q.size(0) * heads.q.size(1), heads.k.size(0), heads.q.size(3)};
}

std::int64_t row_elements(const QkvShape& s) {
  return (s.heads + 2 * s.kv_heads) * s.head_dim;
}

/// Calls f(angles, first token, tokens) for all tokens, in parallel.
template <class F>
void for_all_tokens(std::int64_t tokens, const at::Tensor& rotary, const SequenceLayout* sequences,
                    const F& f) {
  at::Tensor places;
  if (rotary.defined()) places = sequences->positions(at::kCPU);
  at::parallel_for(0, tokens, kGrain, [&](std::int64_t from, std::int64_t to) {
    kernels::RowAngles angles;
    if (rotary.defined()) angles = {in<float>(rotary), in<std::int64_t>(places) + from, rotary.size(1)};
    f(angles, from, to - from);
  });
}

void split(const at::Tensor& rows, const Heads& to, const QkvShape& shape, const at::Tensor& rotary,
           const SequenceLayout* sequences) {
  visit(rows.scalar_type(), [&]<class T>(ElementTag<T>) {
    for_all_tokens(rows.size(0), rotary, sequences, [&](const auto& angles, auto first, auto count) {
      kernels::kernels<T>().rope_split(in<T>(rows) + first * rows.size(1), out<T>(to.q), out<T>(to.k),
                                       out<T>(to.v), angles, first, count, shape);
    });
  });
}

at::Tensor merge(const Heads& from, const QkvShape& shape, const at::Tensor& rotary,
                 const SequenceLayout* sequences) {
  at::Tensor rows = at::empty({shape.seq_len, row_elements(shape)}, from.q.options());
  visit(rows.scalar_type(), [&]<class T>(ElementTag<T>) {
    for_all_tokens(rows.size(0), rotary, sequences, [&](const auto& angles, auto first, auto count) {
      kernels::kernels<T>().rope_merge(out<T>(rows) + first * rows.size(1), in<T>(from.q), in<T>(from.k),
                                       in<T>(from.v), angles, first, count, shape);
    });
  });
  return rows;
}

}  // namespace

Heads empty_heads(std::int64_t tokens, std::int64_t key_tokens, const AttentionOptions& o,
                  const at::TensorOptions& type) {
  return {at::empty({o.kv_heads, group_of(o), tokens, o.head_dim}, type),
          at::empty({o.kv_heads, key_tokens, o.head_dim}, type),
          at::empty({o.kv_heads, key_tokens, o.head_dim}, type)};
}

void split_self(const at::Tensor& qkv, const at::Tensor& rotary, const SequenceLayout& sequences,
                const Heads& to) {
  split(qkv, to, self_shape(to), rotary, &sequences);
}

at::Tensor merge_self(const Heads& gradients, const at::Tensor& rotary, const SequenceLayout& sequences) {
  return merge(gradients, self_shape(gradients), rotary, &sequences);
}

void split_cross(const at::Tensor& q, const at::Tensor& kv, const Heads& to) {
  split(q, to, query_shape(to), {}, nullptr);
  split(kv, to, key_shape(to), {}, nullptr);
}

CrossGradients merge_cross(const Heads& gradients) {
  return {merge(gradients, query_shape(gradients), {}, nullptr),
          merge(gradients, key_shape(gradients), {}, nullptr)};
}

}  // namespace echelon::ops
