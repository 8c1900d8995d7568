#pragma once
#include "model/affine.h"
#include "model/image_classifier.h"

namespace echelon {

/// DeepViT (Zhou et al., DeepViT: Towards Deeper Vision Transformer): a ViT whose attention maps are mixed
/// across heads by a learned matrix and normed over heads (re-attention), so that deep blocks do not all
/// attend alike. Layout and parameter names are those of vit-pytorch's DeepViT: queries, keys and values
/// without bias, a class token, dropout of attention maps and of what each half of a block adds. The maps
/// [samples, heads, tokens, tokens] are held for backward.
class DeepVit : public ImageClassifier {
 public:
  DeepVit(const ModelOptions& options, const ModelTypes& types);

  std::string hugging_face_config() const override;
  double flops_per_sample(const SampleShape& shape) const override;

 private:
  struct Block {
    const Layer* layer;
    Affine attention_norm;
    Parameter* qkv;
    Parameter* mixing;  ///< [heads, heads]: from, to
    Affine mixing_norm;
    Affine attention_out;
    Affine mlp_norm;
    Affine up;
    Affine down;
    std::string name;
  };
  [[nodiscard]] std::int64_t tokens() const;
  void add_embeddings();
  void add_block(std::int64_t index);
  void add_head();
  at::Tensor logits(const Batch& batch) override;
  at::Tensor embedded(const at::Tensor& images, const Batch& draws) const;
  at::Tensor block_forward(const Block& block, const at::Tensor& x, const Batch& draws) const;
  at::Tensor attended(const Block& block, const at::Tensor& qkv, const Batch& draws) const;

  ModelOptions options_;
  Parameter* class_token_ = nullptr;
  Parameter* positions_ = nullptr;
  Affine patch_;
  std::vector<Block> blocks_;
  Affine final_norm_;
  Affine classifier_;
};

}  // namespace echelon
