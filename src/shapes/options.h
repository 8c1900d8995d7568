#pragma once
#include <cstdint>
#include <string>

#include "base/options/choice.h"

namespace echelon {

enum class ModelKind : std::uint8_t { kLlama, kGpt2, kT5, kVit, kDeepVit, kCnn };
template <>
inline constexpr std::array<std::string_view, 6> kWords<ModelKind>{"llama", "gpt2",    "t5",
                                                                   "vit",   "deepvit", "cnn"};

/// True for models of images; all others read text.
[[nodiscard]] constexpr bool takes_images(ModelKind kind) {
  return kind == ModelKind::kVit || kind == ModelKind::kDeepVit || kind == ModelKind::kCnn;
}
/// True for models that train on pairs of texts: source and target.
[[nodiscard]] constexpr bool takes_pairs(ModelKind kind) {
  return kind == ModelKind::kT5;
}

enum class FeedForward : std::uint8_t {
  kRelu,       ///< two matrices, as T5 v1.0
  kGatedGelu,  ///< three matrices, as T5 v1.1
};
template <>
inline constexpr std::array<std::string_view, 2> kWords<FeedForward>{"relu", "gated_gelu"};

/// Recipe section `model`. The defaults are the 179 M Llama of the FSDP2 article.
/// recipe/check/contradictions.cpp lists which kinds use which key.
struct ModelOptions {
  ModelKind kind = ModelKind::kLlama;
  std::string preset = "none";  ///< published model (recipe/model_presets.h) that sets the keys not given
  std::int64_t vocab_size = 50000;
  std::int64_t hidden_size = 768;
  std::int64_t intermediate_size = 3072;  ///< inner width of the feed-forward block
  std::int64_t layers = 12;               ///< t5: blocks of the encoder
  std::int64_t heads = 12;
  std::int64_t kv_heads = 3;          ///< llama: grouped-query attention, heads % kv_heads == 0
  std::int64_t max_positions = 2048;  ///< longest sequence
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
  bool tie_embeddings = false;  ///< the head shares the embedding's weight
  double init_std = 0.02;       ///< standard deviation of the initial weights
  double dropout = 0.0;         ///< dropout probability in training
  // t5
  std::int64_t decoder_layers = 0;  ///< 0: as many as layers
  std::int64_t head_size = 0;       ///< elements of an attention head; 0: hidden_size / heads
  FeedForward feed_forward = FeedForward::kRelu;
  std::int64_t relative_buckets = 32;        ///< of the relative position bias
  std::int64_t relative_max_distance = 128;  ///< distances from here on share a bucket
  // vit, deepvit, cnn
  std::int64_t image_size = 224;  ///< height and width in pixels
  std::int64_t patch_size = 16;
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
};

/// Elements of an attention head.
[[nodiscard]] constexpr std::int64_t head_size(const ModelOptions& model) {
  return model.head_size > 0 ? model.head_size : model.hidden_size / model.heads;
}
/// Blocks of a t5's decoder.
[[nodiscard]] constexpr std::int64_t decoder_layers(const ModelOptions& model) {
  return model.decoder_layers > 0 ? model.decoder_layers : model.layers;
}

}  // namespace echelon
