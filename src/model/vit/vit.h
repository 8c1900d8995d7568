#pragma once
#include "model/patch_classifier.h"

namespace echelon {

/// Vision Transformer (Dosovitskiy et al., An Image is Worth 16x16 Words): a class token followed by patches
/// as tokens, learned positions, pre-norm blocks, GELU, a linear head on the class token. Parameter names and
/// layouts are those of transformers' ViTForImageClassification. Dropout applies to the sum of patches and
/// positions, and to what each half of a block adds; not to attention probabilities.
class Vit : public PatchClassifier {
 public:
  Vit(const ModelOptions& options, const ModelTypes& types);

  SampleFlops flops_per_sample(const SampleShape& shape) const override;

 private:
  [[nodiscard]] Block make_block(const std::string& name);
  [[nodiscard]] Attend attend(std::size_t block, const Batch& draws) const override;
};

}  // namespace echelon
