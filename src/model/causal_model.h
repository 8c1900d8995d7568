#pragma once
#include <optional>

#include "model/generate/causal_decoder.h"
#include "model/model.h"
#include "model/parts/block_parts.h"

namespace echelon {

/// A decoder-only transformer without its blocks: the embedding of tokens, a final norm, and a head that is
/// tied to the embedding or not. A model adds the layers, with their names, and says what a block computes.
class CausalModel : public Model {
 public:
  at::Tensor loss(const Batch& batch, double gradient_scale) override;
  std::unique_ptr<Decoder> decoder(const Batch& prompts) const override;
  double flops_per_sample(const SampleShape& shape) const override;

 protected:
  /// What passes over whole sequences and over single tokens differ in.
  struct Pass {
    BlockAttention attention;
    at::Tensor positions;  ///< int64 [tokens]; undefined: those of batch.sequences
    Batch batch;           ///< for dropout
  };

  /// `kv_heads`: options.heads where keys and values have as many. `rotary`: as ops::AttentionPositions.
  CausalModel(const ModelOptions& options, const ModelTypes& types, std::int64_t kv_heads, at::Tensor rotary);

  /// The layer `name`, whose weight holds a row for each token.
  Layer& add_embedding(const std::string& name, const ShapeTable& shapes);
  /// The layer of the next block.
  Layer& add_block_layer(const std::string& name);
  /// The layer "lm_head" with the norm before it.
  void add_head(const std::string& norm, const ShapeTable& shapes);

  /// ids [tokens] -> [tokens, hidden]; runs within the embedding's layer.
  [[nodiscard]] virtual at::Tensor embedded(const at::Tensor& ids, const Pass& pass) const;
  /// x [tokens, hidden] -> the same shape; runs within the block's layer.
  [[nodiscard]] virtual at::Tensor block_forward(std::size_t block, const at::Tensor& x,
                                                 const Pass& pass) const = 0;
  /// Weights that take part in no matrix product.
  [[nodiscard]] virtual double looked_up() const;

  const ModelOptions options_;

 private:
  /// ids [tokens] -> hidden states before the final norm.
  at::Tensor body(const at::Tensor& ids, const Pass& pass) const;

  at::ScalarType output_;
  ops::AttentionOptions attention_;
  at::Tensor rotary_;
  Layer* embedding_layer_ = nullptr;
  Layer* head_layer_ = nullptr;
  Parameter* embedding_ = nullptr;
  Parameter* head_ = nullptr;  ///< == embedding_ when tied
  std::optional<Norm> final_norm_;
  std::vector<const Layer*> block_layers_;
};

/// The attention of block number `block`.
[[nodiscard]] Attend attend_as(const BlockAttention& attention, std::size_t block);

}  // namespace echelon
