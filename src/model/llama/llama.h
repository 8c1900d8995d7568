#pragma once
#include "model/generate/causal_decoder.h"
#include "model/model.h"
#include "model/ops/ops.h"

namespace echelon {

/// Llama (Touvron et al.): RMSNorm, rotary positions, grouped-query causal attention, SwiGLU, tied or untied
/// head. Parameter names and layouts are those of transformers' LlamaForCausalLM.
class Llama : public Model {
 public:
  Llama(const ModelOptions& options, const ModelTypes& types, at::Device device);

  at::Tensor loss(const Batch& batch, double gradient_scale) override;
  std::unique_ptr<Decoder> decoder(const Batch& prompts) const override;
  std::string hugging_face_config() const override;
  double flops_per_sample(const SampleShape& shape) const override;

 private:
  struct Block {
    const Layer* layer;
    const Layer* input_norm_layer;
    const Layer* attention_layer;
    const Layer* mlp_norm_layer;
    const Layer* mlp_layer;
    Parameter* input_norm;
    Parameter* qkv;
    Parameter* attention_out;
    Parameter* mlp_norm;
    Parameter* gate_up;
    Parameter* down;
  };
  void add_embedding();
  void add_block(std::int64_t index);
  void add_head();
  /// ids [tokens] -> hidden states before the final norm, [tokens, hidden].
  at::Tensor body(const at::Tensor& ids, const BlockAttention& attention) const;
  at::Tensor block_forward(std::int64_t index, const at::Tensor& x, const BlockAttention& attention) const;
  ops::AttentionOptions attention_options() const;
  at::Tensor normed(const Layer& layer, Parameter& weight, const at::Tensor& x) const;
  /// How backward gets normed() again when the block recomputes cheap values; empty: it was kept.
  ops::Recompute normed_again(const Block& block, const Layer& layer, Parameter& weight,
                              const at::Tensor& x) const;

  ModelOptions options_;
  at::ScalarType output_;
  at::Tensor cos_sin_;  ///< fp32 [max_positions, head_dim]
  Layer* embedding_layer_ = nullptr;
  Layer* final_norm_layer_ = nullptr;
  Layer* head_layer_ = nullptr;
  Parameter* embedding_ = nullptr;
  Parameter* final_norm_ = nullptr;
  Parameter* head_ = nullptr;  ///< == embedding_ when tied
  std::vector<Block> blocks_;
};

}  // namespace echelon
