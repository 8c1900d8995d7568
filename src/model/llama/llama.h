#pragma once
#include "model/causal_model.h"
#include "shapes/llama_family.h"

namespace echelon {

/// Llama (Touvron et al.) and the families that differ from it in parts (shapes/llama_family.h): RMSNorm,
/// rotary positions, grouped-query causal attention, SwiGLU, tied or untied head. Parameter names and layouts
/// are those of transformers' classes.
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
  [[nodiscard]] at::Tensor embedded(const at::Tensor& ids, const Pass& pass) const override;
  at::Tensor block_forward(std::size_t block, const at::Tensor& x, const Pass& pass) const override;

  const LlamaFamily& family_;
  std::vector<Block> blocks_;
};

}  // namespace echelon
