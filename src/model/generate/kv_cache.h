#pragma once
#include <ATen/core/Tensor.h>

#include "model/ops/ops.h"

namespace echelon {

/// Keys and values of one attention for rows (continuations) of different lengths, in the type they were
/// computed in. Without autograd.
class KvCache {
 public:
  explicit KvCache(const ops::AttentionOptions& options) : options_(options) {}

  /// Row s becomes sequence s. k, v: [tokens, kv_heads, head_dim].
  void fill(const at::Tensor& k, const at::Tensor& v, const SequenceLayout& sequences);

  /// Adds one token to every row; to a cache that was not filled, the first one of new rows. k, v: [rows,
  /// kv_heads, head_dim].
  void append(const at::Tensor& k, const at::Tensor& v);

  /// Attention of one query per row, [rows, heads * head_dim], to all tokens of the row, or those of the
  /// options' window. `bias`, [rows or 1, heads, longest row]: added to the scaled scores; undefined:
  /// nothing. Returns what q is shaped as.
  [[nodiscard]] at::Tensor attend(const at::Tensor& q, const at::Tensor& bias = {}) const;

  /// Row i becomes what row rows[i] was.
  void reorder(const at::Tensor& rows);

  /// Tokens of the longest row.
  [[nodiscard]] std::int64_t longest() const { return longest_; }

 private:
  void reserve(std::int64_t tokens);

  ops::AttentionOptions options_;
  at::Tensor k_;        ///< [rows, kv_heads, capacity, head_dim]
  at::Tensor v_;        ///< as k_
  at::Tensor lengths_;  ///< int64 [rows]
  std::int64_t longest_ = 0;
};

}  // namespace echelon
