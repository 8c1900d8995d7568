#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/ops/ops.h"

namespace echelon::ops {

/// Query rows of an attention handled together (per head of a group). Small enough that a group's scores stay
/// in the cache and the masked half is skipped, large enough for the matrix products to run at full speed.
constexpr std::int64_t kQueryBlock = 128;

/// Queries, keys and values of an attention, sorted by head: each (key/value head, query head of its group)
/// has the rows of all tokens together.
struct Heads {
  at::Tensor q;  ///< [kv_heads, group, tokens, d]
  at::Tensor k;  ///< [kv_heads, tokens of the keys, d]
  at::Tensor v;  ///< as k
};

/// Query heads that share a key/value head.
[[nodiscard]] inline std::int64_t group_of(const AttentionOptions& o) {
  return o.heads / o.kv_heads;
}

[[nodiscard]] Heads empty_heads(std::int64_t tokens, std::int64_t key_tokens, const AttentionOptions& options,
                                const at::TensorOptions& type);

/// What a projection has of each token.
enum class Projection { kAll, kQueries, kKeysAndValues };

/// Splits a projection into heads, on the CPU. `rotary`: undefined: nothing turns. `sequences`: of its
/// tokens.
void split(Projection what, const at::Tensor& rows, const at::Tensor& rotary, const SequenceLayout& sequences,
           const Heads& to);
/// The transpose: gradients of the heads -> gradient of the projection.
[[nodiscard]] at::Tensor merge(Projection what, const Heads& gradients, const at::Tensor& rotary,
                               const SequenceLayout& sequences);

}  // namespace echelon::ops
