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

 private:
  void add_block(const std::string& name, const ShapeTable& shapes);
  at::Tensor embedded(const at::Tensor& ids, const Pass& pass) const override;
  Attend attend_in(std::size_t block, const Pass& pass) const override;
  Activation activation(std::size_t block) const override;

  const LlamaFamily& family_;
  std::vector<Parameter*> q_norms_;  ///< by block; none: queries and keys are not normalized
  std::vector<Parameter*> k_norms_;
};

}  // namespace echelon
