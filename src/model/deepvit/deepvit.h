#pragma once
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

  SampleFlops flops_per_sample(const SampleShape& shape) const override;

 private:
  struct Mixing {
    Parameter* weight;  ///< [heads (from), heads (to)]
    Linear norm;        ///< weight and bias of a LayerNorm over heads
  };
  [[nodiscard]] Block make_block(const std::string& name);
  [[nodiscard]] Attend attend(std::size_t block, const Batch& draws) const override;

  std::vector<Mixing> mixings_;  ///< by block
};

}  // namespace echelon
