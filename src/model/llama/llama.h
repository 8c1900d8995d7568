#pragma once
#include "model/causal_model.h"

namespace echelon {

/// Llama (Touvron et al.): RMSNorm, rotary positions, grouped-query causal attention, SwiGLU, tied or untied
/// head. Parameter names and layouts are those of transformers' LlamaForCausalLM.
class Llama : public CausalModel {
 public:
  Llama(const ModelOptions& options, const ModelTypes& types, at::Device device);

  std::string hugging_face_config() const override;

 private:
  struct Block {
    const Layer* layer;
    Attention attention;
    Mlp mlp;
  };
  [[nodiscard]] Block make_block(const std::string& name, const ShapeTable& shapes);
  at::Tensor block_forward(std::size_t block, const at::Tensor& x, const Pass& pass) const override;

  std::vector<Block> blocks_;
};

}  // namespace echelon
