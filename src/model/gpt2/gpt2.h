#pragma once
#include "model/causal_model.h"

namespace echelon {

/// GPT-2 (Radford et al.) and minGPT: pre-LayerNorm blocks, learned positions within a sequence, causal
/// attention, GELU in its tanh approximation, biases everywhere except in the head, which may be tied.
/// Parameter names are those of transformers' GPT2LMHeadModel; matrices are [out, in], the transpose of its
/// Conv1D. Dropout applies to the embeddings and to what each part adds to the residual stream. It does not
/// apply to attention probabilities, which are never stored.
class Gpt2 : public CausalModel {
 public:
  Gpt2(const ModelOptions& options, const ModelTypes& types, at::Device device);

  std::string hugging_face_config() const override;

 private:
  struct Block {
    const Layer* layer;
    Attention attention;
    Mlp mlp;             ///< `inner` has no bias
    Parameter* up_bias;  ///< the inner layer's bias, fused with the activation
  };
  [[nodiscard]] Block make_block(const std::string& name, const ShapeTable& shapes);
  at::Tensor embedded(const at::Tensor& ids, const Pass& pass) const override;
  at::Tensor block_forward(std::size_t block, const at::Tensor& x, const Pass& pass) const override;
  double looked_up() const override;

  Layer* position_layer_;
  Parameter* positions_;
  std::vector<Block> blocks_;
};

}  // namespace echelon
