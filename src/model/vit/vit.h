#pragma once
#include "model/parts/block_parts.h"
#include "model/patch_classifier.h"

namespace echelon {

/// Vision Transformer (Dosovitskiy et al., An Image is Worth 16x16 Words): a class token followed by patches
/// as tokens, learned positions, pre-norm blocks, GELU, a linear head on the class token. Parameter names and
/// layouts are those of transformers' ViTForImageClassification. Dropout applies to the sum of patches and
/// positions, and to what each half of a block adds; not to attention probabilities.
class Vit : public PatchClassifier {
 public:
  Vit(const ModelOptions& options, const ModelTypes& types);

  std::string hugging_face_config() const override;
  SampleFlops flops_per_sample(const SampleShape& shape) const override;

 private:
  struct Block {
    const Layer* layer;
    Attention attention;
    Norm norm_after;
    const Layer* intermediate_layer;
    Linear intermediate;
    const Layer* output_layer;
    Linear output;
  };
  void add_embeddings();
  [[nodiscard]] Block make_block(const std::string& name);
  at::Tensor block_forward(std::size_t block, const at::Tensor& x, const Batch& draws) const override;

  std::vector<Block> blocks_;
};

}  // namespace echelon
