#include "model/generate/kv_cache.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "model/ops/products/product.h"

namespace echelon {
namespace {

/// Smallest growth of the capacity, in tokens: growing copies the cache.
constexpr std::int64_t kGrowth = 32;

/// [tokens, kv_heads, d] -> [rows, kv_heads, longest, d], zero behind a row's end.
at::Tensor by_row(const at::Tensor& tokens, const SequenceLayout& sequences) {
  const at::Device device = tokens.device();
  at::Tensor rows =
      at::zeros({sequences.count(), sequences.longest(), tokens.size(1), tokens.size(2)}, tokens.options());
  rows.index_put_({sequences.sequence_numbers(device), sequences.positions(device)}, tokens);
  return rows.transpose(1, 2).contiguous();
}

}  // namespace

void KvCache::fill(const at::Tensor& k, const at::Tensor& v, const SequenceLayout& sequences) {
  k_ = by_row(k, sequences);
  v_ = by_row(v, sequences);
  lengths_ = at::tensor(sequences.lengths(), at::kLong).to(k.device());
  longest_ = sequences.longest();
}

void KvCache::reserve(std::int64_t tokens) {
  if (tokens <= k_.size(2)) return;
  const std::int64_t more = std::max(kGrowth, tokens);
  const at::Tensor room = at::zeros({k_.size(0), k_.size(1), more, k_.size(3)}, k_.options());
  k_ = at::cat({k_, room}, 2);
  v_ = at::cat({v_, room}, 2);
}

void KvCache::append(const at::Tensor& k, const at::Tensor& v) {
  if (!k_.defined()) {
    k_ = v_ = at::empty({k.size(0), k.size(1), 0, k.size(2)}, k.options());
    lengths_ = at::zeros({k.size(0)}, k.options().dtype(at::kLong));
  }
  reserve(++longest_);
  // Rows have different lengths, so each one's new token goes to its own end; no row is padded at the
  // front.
  const at::Tensor place = lengths_.view({-1, 1, 1, 1}).expand({k.size(0), k.size(1), 1, k.size(2)});
  k_.scatter_(2, place, k.unsqueeze(2));
  v_.scatter_(2, place, v.unsqueeze(2));
  lengths_ = lengths_ + 1;
}

at::Tensor KvCache::attend(const at::Tensor& q, const at::Tensor& bias) const {
  const std::int64_t rows = q.size(0);
  const std::int64_t group = options_.heads / options_.kv_heads;
  const at::Tensor queries = q.view({rows, options_.kv_heads, group, options_.head_dim});
  const at::Tensor keys = k_.narrow(2, 0, longest_);
  // Scale, bias and softmax in fp32, as in training's attention.
  at::Tensor scores = ops::matmul(queries, keys.transpose(2, 3)).to(at::kFloat) * options_.scale;
  if (bias.defined()) {
    scores = scores + bias.to(at::kFloat).view({bias.size(0), options_.kv_heads, group, longest_});
  }
  const at::Tensor places = at::arange(longest_, lengths_.options()).view({1, 1, 1, -1});
  const at::Tensor ends = lengths_.view({-1, 1, 1, 1});
  at::Tensor unseen = places >= ends;
  if (options_.window > 0) unseen = unseen.logical_or(places < ends - options_.window);
  scores = scores.masked_fill(unseen, -std::numeric_limits<double>::infinity());
  const at::Tensor shares = at::softmax(scores, -1).to(q.scalar_type());
  return ops::matmul(shares, v_.narrow(2, 0, longest_)).reshape(q.sizes());
}

void KvCache::reorder(const at::Tensor& rows) {
  k_ = k_.index_select(0, rows);
  v_ = v_.index_select(0, rows);
  lengths_ = lengths_.index_select(0, rows);
}

}  // namespace echelon
