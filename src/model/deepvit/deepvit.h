#pragma once
#include "model/parts/block_parts.h"
#include "model/patch_classifier.h"

namespace echelon {

/// DeepViT (Zhou et al., DeepViT: Towards Deeper Vision Transformer): a ViT with re-attention: attention maps
/// are mixed across heads by a learned matrix and normalized over heads, so the maps of deep blocks stay
/// different. Layout and parameter names are those of vit-pytorch's DeepViT: queries, keys and values without
/// bias, a class token, dropout of attention maps and of what each half of a block adds. The maps [samples,
/// heads, tokens, tokens] are kept for backward.
class DeepVit : public PatchClassifier {
 public:
  DeepVit(const ModelOptions& options, const ModelTypes& types);

  std::string hugging_face_config() const override;
  SampleFlops flops_per_sample(const SampleShape& shape) const override;

 private:
  struct Block {
    const Layer* layer;
    Attention attention;
    Parameter* mixing;   ///< [heads (from), heads (to)]
    Linear mixing_norm;  ///< weight and bias of a LayerNorm over heads
    Norm mlp_norm;
    const Layer* up_layer;
    Linear up;
    const Layer* down_layer;
    Linear down;
  };
  void add_embeddings();
  [[nodiscard]] Block make_block(const std::string& name);
  at::Tensor block_forward(std::size_t block, const at::Tensor& x, const Batch& draws) const override;
  at::Tensor attended(const Block& block, const at::Tensor& qkv, const Batch& draws) const;

  std::vector<Block> blocks_;
};

}  // namespace echelon
