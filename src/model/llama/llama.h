#pragma once
#include "model/causal_model.h"

namespace echelon {

/// Llama (Touvron et al.) and the families that differ from it in parts: RMSNorm, rotary positions,
/// grouped-query causal attention, SwiGLU, tied or untied head. Mistral has a window of attention, Qwen2
/// biases of queries, keys and values, Qwen3 norms of queries and keys. Parameter names and layouts are those
/// of transformers' LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and Qwen3ForCausalLM.
class Llama : public CausalModel {
 public:
  Llama(const ModelOptions& options, const ModelTypes& types, at::Device device,
        const LoraOptions& lora = {});

  std::string hugging_face_config() const override;

 private:
  struct Block {
    const Layer* layer;
    Attention attention;
    Mlp mlp;
    Parameter* q_norm = nullptr;  ///< null: queries and keys are not normalized
    Parameter* k_norm = nullptr;
  };
  [[nodiscard]] Block make_block(const std::string& name, const ShapeTable& shapes);
  [[nodiscard]] Attend attend_in(const Block& block, std::size_t number, const Pass& pass) const;
  at::Tensor block_forward(std::size_t block, const at::Tensor& x, const Pass& pass) const override;

  std::vector<Block> blocks_;
};

}  // namespace echelon
