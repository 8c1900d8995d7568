#include "model/ops/heads.h"

#include <ATen/ATen.h>

#include "model/ops/access.h"

namespace echelon::ops {
namespace {

using kernels::QkvShape;

/// Tokens per task of a thread.
constexpr std::int64_t kGrain = 32;

QkvShape shape_of(Projection what, const Heads& heads) {
  const bool queries = what != Projection::kKeysAndValues;
  return {queries ? heads.q.size(2) : heads.k.size(1), queries ? heads.q.size(0) * heads.q.size(1) : 0,
          what != Projection::kQueries ? heads.k.size(0) : 0, heads.k.size(2)};
}

/// Calls f(angles, first token, tokens) for all tokens, in parallel.
template <class F>
void for_all_tokens(std::int64_t tokens, const at::Tensor& rotary, const SequenceLayout& sequences,
                    const F& f) {
  at::Tensor places;
  if (rotary.defined()) places = sequences.positions(at::kCPU);
  at::parallel_for(0, tokens, kGrain, [&](std::int64_t from, std::int64_t to) {
    kernels::RowAngles angles;
    if (rotary.defined()) angles = {in<float>(rotary), in<std::int64_t>(places) + from, rotary.size(1)};
    f(angles, from, to - from);
  });
}

}  // namespace

Heads empty_heads(std::int64_t tokens, std::int64_t key_tokens, const AttentionOptions& o,
                  const at::TensorOptions& type) {
  return {at::empty({o.kv_heads, group_of(o), tokens, o.head_dim}, type),
          at::empty({o.kv_heads, key_tokens, o.head_dim}, type),
          at::empty({o.kv_heads, key_tokens, o.head_dim}, type)};
}

void split(Projection what, const at::Tensor& rows, const at::Tensor& rotary, const SequenceLayout& sequences,
           const Heads& to) {
  const QkvShape shape = shape_of(what, to);
  visit(rows.scalar_type(), [&]<class T>(ElementTag<T>) {
    for_all_tokens(rows.size(0), rotary, sequences, [&](const auto& angles, auto first, auto count) {
      kernels::kernels<T>().rope_split(in<T>(rows) + first * rows.size(1), out<T>(to.q), out<T>(to.k),
                                       out<T>(to.v), angles, first, count, shape);
    });
  });
}

at::Tensor merge(Projection what, const Heads& from, const at::Tensor& rotary,
                 const SequenceLayout& sequences) {
  const QkvShape shape = shape_of(what, from);
  at::Tensor rows =
      at::empty({shape.seq_len, (shape.heads + 2 * shape.kv_heads) * shape.head_dim}, from.q.options());
  visit(rows.scalar_type(), [&]<class T>(ElementTag<T>) {
    for_all_tokens(rows.size(0), rotary, sequences, [&](const auto& angles, auto first, auto count) {
      kernels::kernels<T>().rope_merge(out<T>(rows) + first * rows.size(1), in<T>(from.q), in<T>(from.k),
                                       in<T>(from.v), angles, first, count, shape);
    });
  });
  return rows;
}

}  // namespace echelon::ops
