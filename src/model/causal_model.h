#pragma once
#include <optional>

#include "model/generate/causal_decoder.h"
#include "model/model.h"
#include "model/parts/block_parts.h"
#include "model/parts/rotary.h"

namespace echelon {

/// Base of decoder-only transformers: token embedding, final norm, and a head that may be tied to the
/// embedding. Derived models add the layers under their names and define the computation of a block.
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

  /// `kv_heads`: number of heads of keys and values; equals options.heads without grouped-query attention.
  /// `rotary`: of the positions; nothing where the model learns them. `window_rotary`: of blocks with a
  /// window; nothing where it is the same.
  CausalModel(const ModelOptions& options, const ModelTypes& types, std::int64_t kv_heads,
              std::optional<RotaryTable> rotary, std::optional<RotaryTable> window_rotary = {});

  /// Adds the embedding layer `name`, whose weight has a row per token of the vocabulary.
  Layer& add_embedding(const std::string& name, const ShapeTable& shapes);
  /// Adds the layer of the next block.
  Layer& add_block_layer(const std::string& name);
  /// Adds the layer `head`, with the final norm `norm` in it.
  void add_head(const std::string& norm, const ShapeTable& shapes, const std::string& head = "lm_head");

  /// Gives the products of a block those adapters that are of their matrices.
  void add_adapters(Attention& attention, Mlp& mlp, const std::vector<AdaptedMatrix>& adapted,
                    const LoraOptions& lora);

  /// What `of` adds to the residual stream, after dropout.
  [[nodiscard]] at::Tensor dropped(const at::Tensor& x, const Layer& of, const Pass& pass) const;
  /// ids [tokens] -> [tokens, hidden]; runs within the embedding's layer.
  [[nodiscard]] virtual at::Tensor embedded(const at::Tensor& ids, const Pass& pass) const;
  /// x [tokens, hidden] -> the same shape; runs within the block's layer.
  [[nodiscard]] virtual at::Tensor block_forward(std::size_t block, const at::Tensor& x,
                                                 const Pass& pass) const = 0;
  /// Number of weights that take part in no matrix product (tables that are only looked up).
  [[nodiscard]] virtual double looked_up() const;

  const ModelOptions options_;

 private:
  /// Gives the product those adapters that are of its matrices, if any.
  void add_adapter(Linear& linear, const std::vector<AdaptedMatrix>& adapted, const LoraOptions& lora);
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

  at::ScalarType output_;
  ops::AttentionOptions attention_;  ///< of a block without a window
  mutable std::optional<RotaryTable> rotary_;
  mutable std::optional<RotaryTable> window_rotary_;  ///< of blocks with a window; nothing: rotary_
  Layer* embedding_layer_ = nullptr;
  Layer* head_layer_ = nullptr;
  Parameter* embedding_ = nullptr;
  Parameter* head_ = nullptr;  ///< == embedding_ when tied
  std::optional<Norm> final_norm_;
  std::vector<const Layer*> block_layers_;
};

/// x * factor; x itself where that is 1.
[[nodiscard]] at::Tensor times(const at::Tensor& x, double factor);

/// The attention of block number `block`.
[[nodiscard]] Attend attend_as(const BlockAttention& attention, std::size_t block);

}  // namespace echelon
