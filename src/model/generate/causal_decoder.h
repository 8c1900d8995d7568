#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "model/batch.h"
#include "model/decoder.h"
#include "model/generate/kv_cache.h"

namespace echelon {

/// The attention inside block number `block` of a decoder-only model: its fused projection [tokens, (heads +
/// 2 kv_heads) * head_dim] -> [tokens, heads * head_dim]. What it is depends on whether whole sequences are
/// computed or one token of each.
using BlockAttention = std::function<at::Tensor(std::int64_t block, const at::Tensor& qkv)>;

/// Block number -> its table for ops::AttentionPositions::rotary; undefined: no rotation.
using BlockRotary = std::function<at::Tensor(std::int64_t block)>;

/// The parts of a decoder-only model, for running it token by token.
struct CausalParts {
  /// ids [tokens] at their positions in their sequences, int64 [tokens] -> hidden states [tokens, hidden].
  std::function<at::Tensor(const at::Tensor& ids, const at::Tensor& positions, const BlockAttention&)> hidden;
  /// Hidden states -> logits, fp32 [tokens, vocabulary].
  std::function<at::Tensor(const at::Tensor& hidden)> logits;
  std::function<ops::AttentionOptions(std::int64_t block)> attention;
  std::int64_t blocks;
  /// For sequences of up to this length.
  std::function<BlockRotary(std::int64_t positions)> rotary;
  std::int64_t max_positions;
};

/// A decoder of decoder-only models: prompts run as ragged sequences, later tokens one at a time.
class CausalDecoder final : public Decoder {
 public:
  /// `prompts`: ids and sequences. Throws Error(kUsage) for one longer than max_positions.
  CausalDecoder(CausalParts parts, const Batch& prompts);

  at::Tensor start() override;
  at::Tensor step(const at::Tensor& ids) override;
  void reorder(const at::Tensor& rows) override;

 private:
  /// Query, key and value of tokens, [tokens, heads of each, head_dim], the first two rotated.
  struct Split {
    at::Tensor q;
    at::Tensor k;
    at::Tensor v;
  };
  /// `rotary`: of the block, of which `positions` are the tokens' rows; undefined: no rotation.
  [[nodiscard]] Split split(const at::Tensor& qkv, const at::Tensor& rotary,
                            const at::Tensor& positions) const;

  CausalParts parts_;
  at::Tensor ids_;
  Sequences prompts_;
  std::vector<KvCache> caches_;  ///< of each block
  at::Tensor lengths_;           ///< int64 [rows]
};

}  // namespace echelon
