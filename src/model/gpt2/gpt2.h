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
  Gpt2(const ModelOptions& options, const ModelTypes& types);

 private:
  void add_block(const std::string& name, const ShapeTable& shapes);
  at::Tensor embedded(const at::Tensor& ids, const Pass& pass) const override;
  Activation activation(std::size_t block) const override;
  double looked_up() const override;

  Layer* position_layer_;
  Parameter* positions_;
  std::vector<Parameter*> up_biases_;  ///< of the blocks' inner layers, fused with the activation
};

}  // namespace echelon
