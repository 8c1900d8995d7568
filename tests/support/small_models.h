#pragma once
#include "shapes/options.h"

namespace echelon::test {

/// A Llama of two blocks, for sums that one can check by hand.
inline ModelOptions small_options(bool tied = false) {
  return {.vocab_size = 13,
          .hidden_size = 8,
          .intermediate_size = 12,
          .layers = 2,
          .heads = 2,
          .kv_heads = 1,
          .max_positions = 8,
          .tie_embeddings = tied};
}

/// A Llama whose weights are large enough that every one of them matters to its loss.
inline ModelOptions lively_options(std::int64_t layers, bool tied = false) {
  return {.vocab_size = 61,
          .hidden_size = 24,
          .intermediate_size = 40,
          .layers = layers,
          .heads = 4,
          .kv_heads = 2,
          .max_positions = 32,
          .tie_embeddings = tied,
          .init_std = 0.2};
}

}  // namespace echelon::test
