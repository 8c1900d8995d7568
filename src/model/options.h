#pragma once
#include <cstdint>
#include <string>

namespace echelon {

/// Recipe section `model`. Defaults describe the 179 M Llama of the FSDP2 article. Which kind obeys which
/// key stands in recipe/check/contradictions.cpp.
struct ModelOptions {
  std::string kind = "llama";   ///< llama | gpt2 | t5 | vit | deepvit | cnn
  std::string preset = "none";  ///< published model of recipe/model_presets.h that the keys not given follow
  std::int64_t vocab_size = 50000;
  std::int64_t hidden_size = 768;
  std::int64_t intermediate_size = 3072;  ///< inner width of the feed-forward block
  std::int64_t layers = 12;               ///< t5: of the encoder
  std::int64_t heads = 12;
  std::int64_t kv_heads = 3;          ///< llama: grouped-query attention, heads % kv_heads == 0
  std::int64_t max_positions = 2048;  ///< longest sequence
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
  bool tie_embeddings = false;  ///< output head shares the embedding's weight
  double init_std = 0.02;       ///< standard deviation of the initial weights
  double dropout = 0.0;         ///< share of activations that a training pass zeroes
  // t5
  std::int64_t decoder_layers = 0;           ///< 0: as many as layers
  std::int64_t head_size = 0;                ///< elements of an attention head; 0: hidden_size / heads
  std::string feed_forward = "relu";         ///< relu (v1.0) | gated_gelu (v1.1)
  std::int64_t relative_buckets = 32;        ///< of the relative position bias
  std::int64_t relative_max_distance = 128;  ///< from here on all distances share a bucket
  // vit, deepvit, cnn
  std::int64_t image_size = 224;  ///< pixels, both ways
  std::int64_t patch_size = 16;
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
};

}  // namespace echelon
