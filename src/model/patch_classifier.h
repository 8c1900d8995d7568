#pragma once
#include <optional>
#include <string>
#include <vector>

#include "model/image_classifier.h"
#include "model/parts/block_parts.h"

namespace echelon {

/// Order of the values within a patch.
enum class PatchLayout {
  kChannelsFirst,  ///< channel, row, column, as in a convolution kernel
  kChannelsLast,   ///< row, column, channel
};

/// Base of vision transformers: a class token followed by one token per patch, learned positions, and a
/// linear head on the normalized class token. Derived models add the parameters under their names, and
/// compute attention.
class PatchClassifier : public ImageClassifier {
 protected:
  /// Suffixes of a block's name that number the draws of its feed-forward's dropout.
  struct Drops {
    std::string inner = {};  ///< of what is activated; empty: no dropout there
    std::string outer;       ///< of the result
  };
  /// Attention, and a feed-forward of two layers, so that patterns in recipes can match each.
  struct Block {
    const Layer* layer;
    Attention attention;
    Norm norm;
    const Layer* up_layer;
    Linear up;
    const Layer* down_layer;
    Linear down;
  };
  PatchClassifier(const ModelOptions& options, const ModelTypes& types, PatchLayout layout, Drops drops);

  /// Tokens per sample, including the class token.
  [[nodiscard]] std::int64_t tokens() const;
  /// Distribution of initial weights.
  [[nodiscard]] InitSpec init() const { return normal(options_.init_std); }

  void add_class_token(Layer& layer, const std::string& name);
  void add_positions(Layer& layer, const std::string& name);
  void add_projection(Layer& layer, const std::string& name);
  void add_head(const std::string& layer, const std::string& norm, const std::string& classifier);

  [[nodiscard]] at::Tensor logits(const Batch& batch) override;
  /// Attention of block number `block`. `draws`: for dropout.
  [[nodiscard]] virtual Attend attend(std::size_t block, const Batch& draws) const = 0;
  /// Floating-point operations per sample. `attention`: those of attention per token and block, without
  /// products with weights.
  [[nodiscard]] SampleFlops flops_with(double attention) const;

  const ShapeTable shapes_;
  std::vector<Block> blocks_;

 private:
  [[nodiscard]] at::Tensor embedded(const at::Tensor& images, const Batch& draws) const;
  /// x [samples * tokens(), hidden] -> the same shape. `draws`: for dropout.
  [[nodiscard]] at::Tensor block_forward(std::size_t number, const at::Tensor& x, const Batch& draws) const;

  PatchLayout layout_;
  Drops drops_;
  Parameter* class_token_ = nullptr;
  Parameter* positions_ = nullptr;
  const Layer* embedding_layer_ = nullptr;
  Linear patch_;
  const Layer* head_layer_ = nullptr;
  std::optional<Norm> final_norm_;
  Linear classifier_;
};

}  // namespace echelon
