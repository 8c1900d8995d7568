#pragma once
#include "model/parts/block_parts.h"
#include "model/patch_classifier.h"

namespace echelon {

/// Vision Transformer (Dosovitskiy et al., An Image is Worth 16x16 Words): patches as tokens behind a class
/// token, learned positions, blocks with the norms in front, GELU, a linear head on the class token.
/// Parameter names and layouts are those of transformers' ViTForImageClassification. Dropout zeroes the sum
/// of patches and positions, and what each half of a block adds; attention itself has none.
class Vit : public PatchClassifier {
 public:
  Vit(const ModelOptions& options, const ModelTypes& types);

  std::string hugging_face_config() const override;
  double flops_per_sample(const SampleShape& shape) const override;

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
