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

 private:
  void add_block(const std::string& name, const ShapeTable& shapes);
  Attend attend_in(std::size_t block, const Pass& pass) const override;
  Activation activation(std::size_t block) const override;
  bool parallel() const override { return options_.use_parallel_residual; }
};

}  // namespace echelon
