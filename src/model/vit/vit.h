#pragma once
#include "model/affine.h"
#include "model/image_classifier.h"

namespace echelon {

/// Vision Transformer (Dosovitskiy et al., An Image is Worth 16x16 Words): patches as tokens behind a class
/// token, learned positions, blocks with the norms in front, GELU, a linear head on the class token.
/// Parameter names and layouts are those of transformers' ViTForImageClassification. Dropout zeroes the sum
/// of patches and positions, and what each half of a block adds; attention itself has none.
class Vit : public ImageClassifier {
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
  [[nodiscard]] std::int64_t tokens() const;
  void add_embeddings();
  void add_block(std::int64_t index);
  void add_head();
  at::Tensor logits(const Batch& batch) override;
  at::Tensor embedded(const at::Tensor& images, const Batch& draws) const;
  at::Tensor block_forward(const Block& block, const at::Tensor& x, const Batch& draws) const;

  ModelOptions options_;
  Parameter* class_token_ = nullptr;
  Parameter* positions_ = nullptr;
  Affine patch_;
  std::vector<Block> blocks_;
  Affine final_norm_;
  Affine classifier_;
};

}  // namespace echelon
