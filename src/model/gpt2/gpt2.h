#pragma once
#include "model/affine.h"
#include "model/generate/causal_decoder.h"
#include "model/model.h"
#include "model/ops/ops.h"

namespace echelon {

/// GPT-2 (Radford et al.) and minGPT: LayerNorm before each part, learned positions within a sequence, causal
/// attention, GELU in its tanh approximation, biases everywhere but in the head, which is tied or not.
/// Parameter names are those of transformers' GPT2LMHeadModel; matrices lie [out, in], the transpose of its
/// Conv1D. Dropout acts on the embeddings and on what each part adds to the residual stream, and not on
/// attention probabilities: those are never held.
class Gpt2 : public Model {
 public:
  Gpt2(const ModelOptions& options, const ModelTypes& types, at::Device device);

  at::Tensor loss(const Batch& batch, double gradient_scale) override;
  std::unique_ptr<Decoder> decoder(const Batch& prompts) const override;
  std::string hugging_face_config() const override;
  double flops_per_sample(const SampleShape& shape) const override;

 private:
  struct Block {
    const Layer* layer;
    const Layer* attention_layer;
    const Layer* mlp_layer;
    Affine attention_norm;
    Affine mlp_norm;
    Affine qkv;
    Affine attention_out;
    Affine up;
    Affine down;
  };
  void add_embedding();
  void add_block(std::int64_t index);
  void add_head();

  /// What whole sequences and single tokens differ in.
  struct Pass {
    at::Tensor positions;  ///< int64 [tokens]
    BlockAttention attention;
    Batch batch;  ///< for dropout
  };
  /// ids [tokens] -> hidden states before the final norm, [tokens, hidden].
  at::Tensor body(const at::Tensor& ids, const Pass& pass) const;
  at::Tensor block_forward(std::int64_t index, const at::Tensor& x, const Pass& pass) const;
  at::Tensor normed(const Affine& norm, const at::Tensor& x) const;
  /// How backward gets normed() again when the block recomputes cheap values; empty: it was kept.
  ops::Recompute normed_again(const Block& block, const Affine& norm, const at::Tensor& x) const;
  ops::AttentionOptions attention_options() const;

  ModelOptions options_;
  at::ScalarType output_;
  Layer* embedding_layer_ = nullptr;
  Layer* position_layer_ = nullptr;
  Layer* head_layer_ = nullptr;
  Parameter* embedding_ = nullptr;
  Parameter* positions_ = nullptr;
  Affine final_norm_;
  Parameter* head_ = nullptr;  ///< == embedding_ when tied
  std::vector<Block> blocks_;
};

}  // namespace echelon
