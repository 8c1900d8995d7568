#pragma once
#include <cstdint>
#include <string>

namespace echelon {

/// Recipe section `model`. Defaults describe the 179 M Llama of the FSDP2 article.
struct ModelOptions {
  std::string kind = "llama";  ///< llama
  std::int64_t vocab_size = 50000;
  std::int64_t hidden_size = 768;
  std::int64_t intermediate_size = 3072;  ///< SwiGLU's inner width
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t kv_heads = 3;          ///< grouped-query attention: heads % kv_heads == 0
  std::int64_t max_positions = 2048;  ///< longest sequence
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
  bool tie_embeddings = false;  ///< output head shares the embedding's weight
  double init_std = 0.02;       ///< standard deviation of the initial weights
};

}  // namespace echelon
