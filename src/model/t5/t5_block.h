#pragma once
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "model/generate/kv_cache.h"
#include "model/parts/block_parts.h"

namespace echelon {

class T5Block;

/// Cache of token-by-token decoding: each block's keys and values of earlier tokens and of the sources.
struct T5Kept {
  std::unordered_map<const T5Block*, KvCache> self;
  std::unordered_map<const T5Block*, KvCache> source;  ///< filled by the first step
  std::int64_t tokens = 0;                             ///< number of tokens before the current step
};

/// Describes the tokens of a pass through the encoder or decoder of a T5.
struct T5Tokens {
  Sequences sequences;
  Sequences sources;  ///< in a decoder: the encoder's sequences
  Batch batch;        ///< only the fields that dropout needs; its samples are `sequences`
  /// The kept keys and values of a decoding step, in which every sequence is one token; null: whole
  /// sequences.
  T5Kept* kept = nullptr;
};
using T5Pass = std::shared_ptr<const T5Tokens>;

/// One block of a T5's encoder or decoder: self-attention, in a decoder also cross-attention to the encoder's
/// output, and feed-forward. Each part is computed from its normalized input and added to the input. Layers
/// and parameters have the names of transformers' modules.
class T5Block {
 public:
  /// Adds the parameters to `layer`, which has the name of the block ("encoder.block.3").
  T5Block(Layer& layer, const ModelOptions& options, const ShapeTable& shapes, bool decoder);

  /// inputs: hidden states [tokens, hidden], a bias as AttentionPositions::bias, and in a decoder the
  /// encoder's output. Returns hidden states.
  [[nodiscard]] at::Tensor forward(const LayerInputs& inputs, const T5Pass& pass) const;

  [[nodiscard]] ops::AttentionOptions geometry(bool causal) const;

 private:
  /// Attention to the encoder's output. `attention.in` computes the queries, `kv` keys and values.
  struct CrossAttention {
    Attention attention;
    Linear kv;
  };
  [[nodiscard]] Attention self_attention(Layer& layer, const ShapeTable& shapes) const;
  [[nodiscard]] CrossAttention cross_attention(Layer& layer, const ShapeTable& shapes) const;
  [[nodiscard]] Mlp feed_forward(Layer& layer, const ShapeTable& shapes) const;
  /// The name of sublayer `number`, which also keys its dropout masks.
  [[nodiscard]] std::string sublayer(int number) const;
  [[nodiscard]] int feed_forward_number() const { return decoder_ ? 2 : 1; }

  void attend(Residual& stream, const at::Tensor& bias, const T5Pass& pass) const;
  void attend_to_source(Residual& stream, const at::Tensor& encoded, const T5Pass& pass) const;
  /// The attentions of a decoding step, from their projections.
  [[nodiscard]] at::Tensor step(const at::Tensor& qkv, const at::Tensor& bias, T5Kept& kept) const;
  [[nodiscard]] at::Tensor step_to_source(const at::Tensor& q, const at::Tensor& encoded,
                                          const T5Tokens& tokens) const;
  void feed(Residual& stream, const T5Pass& pass) const;

  const Layer* layer_;
  ModelOptions options_;
  bool decoder_;
  Attention self_;
  std::optional<CrossAttention> cross_;
  Mlp feed_forward_;
};

/// Normal distribution with mean 0 and this variance.
[[nodiscard]] InitSpec t5_normal(double variance);

}  // namespace echelon
