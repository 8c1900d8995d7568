#pragma once
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
    Affine norm_before;
    Affine qkv;
    Affine attention_out;
    Affine norm_after;
    Affine intermediate;
    Affine output;
    std::string name;
  };
  void add_embeddings();
  void add_block(std::int64_t index);
  at::Tensor block_forward(std::size_t block, const at::Tensor& x, const Batch& draws) const override;

  std::vector<Block> blocks_;
};

}  // namespace echelon
