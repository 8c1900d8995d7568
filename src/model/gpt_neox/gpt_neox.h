#pragma once
#include "model/causal_model.h"

namespace echelon {

/// GPT-NeoX (Black et al.) and Pythia: LayerNorm, rotary positions of the first elements of each head, causal
/// attention, GELU, biases everywhere except in the head. Attention and feed-forward read the same residual
/// stream, or one after the other. Parameter names and layouts are those of transformers' GPTNeoXForCausalLM.
/// Dropout as in Gpt2.
class GptNeoX : public CausalModel {
 public:
  GptNeoX(const ModelOptions& options, const ModelTypes& types, at::Device device, const LoraOptions& lora);

  std::string hugging_face_config() const override;

 private:
  struct Block {
    const Layer* layer;
    Attention attention;
    Mlp mlp;
  };
  [[nodiscard]] Block make_block(const std::string& name, const ShapeTable& shapes);
  at::Tensor embedded(const at::Tensor& ids, const Pass& pass) const override;
  at::Tensor block_forward(std::size_t block, const at::Tensor& x, const Pass& pass) const override;

  std::vector<Block> blocks_;
};

}  // namespace echelon
