#pragma once
#include <functional>
#include <optional>

#include "model/model.h"
#include "model/parts/block_parts.h"
#include "model/parts/rotary.h"

namespace echelon {

/// The attention inside block number `block` of a decoder-only model: its fused projection [tokens, (heads +
/// 2 kv_heads) * head_dim] -> [tokens, heads * head_dim]. What it is depends on whether whole sequences are
/// computed or one token of each.
using BlockAttention = std::function<at::Tensor(std::int64_t block, const at::Tensor& qkv)>;

/// Block number -> its table for ops::AttentionPositions::rotary; undefined: no rotation.
using BlockRotary = std::function<at::Tensor(std::int64_t block)>;

/// Base of decoder-only transformers: token embedding, blocks of attention and feed-forward, final norm, and
/// a head that may be tied to the embedding. Derived models add the layers under their names and say what
/// differs in a block.
class CausalModel : public Model {
 public:
  at::Tensor loss(const Batch& batch, double gradient_scale) override;
  Score evaluate(const Batch& batch) override;
  at::Tensor token_losses(const Batch& batch, const at::Tensor& tokens, const at::Tensor& targets) override;
  std::unique_ptr<Decoder> decoder(const Batch& prompts) const override;
  SampleFlops flops_per_sample(const SampleShape& shape) const override;

 protected:
  /// The parts in which a pass over whole sequences and a step of generation differ.
  struct Pass {
    BlockAttention attention;
    at::Tensor positions;  ///< int64 [tokens]; undefined: those of batch.sequences
    Batch batch;           ///< for dropout
  };
  struct Block {
    const Layer* layer;
    Attention attention;
    Mlp mlp;
  };

  /// `kv_heads`: number of heads of keys and values; equals options.heads without grouped-query attention.
  /// `rotary`: of the positions; nothing where the model learns them. `window_rotary`: of blocks with a
  /// window; nothing where it is the same.
  CausalModel(const ModelOptions& options, const ModelTypes& types, std::int64_t kv_heads,
              std::optional<RotaryTable> rotary, std::optional<RotaryTable> window_rotary = {});

  /// Adds the embedding layer `name`, whose weight has a row per token of the vocabulary.
  Layer& add_embedding(const std::string& name, const ShapeTable& shapes);
  /// Adds the layer `head`, with the final norm `norm` in it.
  void add_head(const std::string& norm, const ShapeTable& shapes, const std::string& head = "lm_head");
  /// Gives the products of all blocks those adapters that are of their matrices.
  void add_adapters(const LoraOptions& lora);

  /// ids [tokens] -> [tokens, hidden], before dropout; runs within the embedding's layer.
  [[nodiscard]] virtual at::Tensor embedded(const at::Tensor& ids, const Pass& pass) const;
  /// The attention of a block.
  [[nodiscard]] virtual Attend attend_in(std::size_t block, const Pass& pass) const;
  /// The activation of a block's feed-forward.
  [[nodiscard]] virtual Activation activation(std::size_t block) const = 0;
  /// True if the feed-forward of a block reads what its attention reads, and not the sum with its result.
  [[nodiscard]] virtual bool parallel() const { return false; }
  /// Number of weights that take part in no matrix product (tables that are only looked up).
  [[nodiscard]] virtual double looked_up() const;

  std::vector<Block> blocks_;

 private:
  class TokenByToken;  ///< its decoder: generate/causal_decoder.cpp

  /// What `of` adds to the residual stream, after dropout.
  [[nodiscard]] at::Tensor dropped(const at::Tensor& x, const Layer& of, const Pass& pass) const;
  /// x [tokens, hidden] -> the same shape; runs within the block's layer.
  [[nodiscard]] at::Tensor block_forward(std::size_t number, const at::Tensor& x, const Pass& pass) const;
  /// ids [tokens] -> hidden states before the final norm.
  at::Tensor body(const at::Tensor& ids, const Pass& pass) const;
  /// body() of whole sequences.
  at::Tensor body(const Batch& batch) const;
  [[nodiscard]] ops::AttentionOptions attention_of(std::int64_t block) const;
  /// Hidden states -> what the head's matrix multiplies.
  [[nodiscard]] at::Tensor head_input(const at::Tensor& x) const;
  /// Returns the table for ops::AttentionPositions::rotary of each block, for sequences of up to `positions`
  /// tokens.
  [[nodiscard]] BlockRotary rotary_of(std::int64_t positions) const;

  ops::AttentionOptions attention_;  ///< of a block without a window
  mutable std::optional<RotaryTable> rotary_;
  mutable std::optional<RotaryTable> window_rotary_;  ///< of blocks with a window; nothing: rotary_
  Layer* embedding_layer_ = nullptr;
  Layer* head_layer_ = nullptr;
  Parameter* embedding_ = nullptr;
  Parameter* head_ = nullptr;  ///< == embedding_ when tied
  std::optional<Norm> final_norm_;
};

/// x * factor; x itself where that is 1.
[[nodiscard]] at::Tensor times(const at::Tensor& x, double factor);

}  // namespace echelon
