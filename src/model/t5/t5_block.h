#pragma once
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "model/generate/kv_cache.h"
#include "model/parts/block_parts.h"

namespace echelon {

class T5Block;

/// What a decoder that goes token by token keeps: each block's keys and values of the tokens before and of
/// the sources.
struct T5Kept {
  std::unordered_map<const T5Block*, KvCache> self;
  std::unordered_map<const T5Block*, KvCache> source;  ///< filled in the first step
  std::int64_t tokens = 0;                             ///< before this step's
};

/// What a pass through a T5's encoder or decoder knows about its tokens besides their hidden states.
struct T5Tokens {
  Sequences sequences;
  Sequences sources;       ///< of a decoder: the encoder's sequences
  Batch batch;             ///< only what dropout needs: its samples are those of `sequences`
  T5Kept* kept = nullptr;  ///< of a step, in which every sequence is one token; null: whole sequences
};
using T5Pass = std::shared_ptr<const T5Tokens>;

/// One block of a T5's encoder or decoder: self attention, in a decoder attention to the encoder's output,
/// and feed-forward; each computed from its normed input and added to it. Layers and parameters have the
/// names of transformers' modules.
class T5Block {
 public:
  /// Fills `layer`, whose name is that of the block ("encoder.block.3").
  T5Block(Layer& layer, const ModelOptions& options, const ShapeTable& shapes, bool decoder);

  /// inputs: hidden states [tokens, hidden], a bias as AttentionPositions::bias, and of a decoder the
  /// encoder's output. Returns hidden states.
  [[nodiscard]] at::Tensor forward(const LayerInputs& inputs, const T5Pass& pass) const;

  [[nodiscard]] ops::AttentionOptions geometry(bool causal) const;

 private:
  /// To the encoder's output. `attention.in` makes the queries.
  struct CrossAttention {
    Attention attention;
    Linear kv;
  };
  [[nodiscard]] Attention self_attention(Layer& layer, const ShapeTable& shapes) const;
  [[nodiscard]] CrossAttention cross_attention(Layer& layer, const ShapeTable& shapes) const;
  [[nodiscard]] Mlp feed_forward(Layer& layer, const ShapeTable& shapes) const;
  /// The name of sublayer `number`, a place of dropout.
  [[nodiscard]] std::string sublayer(int number) const;
  [[nodiscard]] int feed_forward_number() const { return decoder_ ? 2 : 1; }

  [[nodiscard]] at::Tensor attend(const at::Tensor& x, const at::Tensor& bias, const T5Pass& pass) const;
  [[nodiscard]] at::Tensor attend_to_source(const at::Tensor& x, const at::Tensor& encoded,
                                            const T5Pass& pass) const;
  /// The attentions of a step, given their projections.
  [[nodiscard]] at::Tensor step(const at::Tensor& qkv, const at::Tensor& bias, T5Kept& kept) const;
  [[nodiscard]] at::Tensor step_to_source(const at::Tensor& q, const at::Tensor& encoded,
                                          const T5Tokens& tokens) const;
  [[nodiscard]] at::Tensor feed(const at::Tensor& x, const T5Pass& pass) const;

  const Layer* layer_;
  ModelOptions options_;
  bool decoder_;
  Attention self_;
  std::optional<CrossAttention> cross_;
  Mlp feed_forward_;
};

/// Initial values of mean zero and this variance.
[[nodiscard]] InitSpec t5_normal(double variance);

}  // namespace echelon
