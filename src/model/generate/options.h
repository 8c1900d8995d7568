#pragma once
#include <cstdint>

namespace echelon {

/// How continuations are searched for.
struct GenerateOptions {
  std::int64_t max_new_tokens = 64;
  std::int64_t end_id = -1;  ///< the token that ends a continuation; -1: none does

  std::int64_t beams = 1;  ///< continuations kept of each prompt; above one the most likely is searched for
  double length_penalty = 1.0;  ///< a continuation of n tokens scores log probability / n^this

  double temperature = 0.0;       ///< 0: the likeliest token each time; 1: drawn as predicted. Needs one beam
  std::int64_t top_k = 0;         ///< draw among so many likeliest tokens; 0: among all
  double top_p = 1.0;             ///< draw among the likeliest tokens that have this share together
  std::uint64_t seed = 1;         ///< of what is drawn
  std::int64_t first_prompt = 0;  ///< number of the first prompt: draws depend on seed, prompt and place only
};

}  // namespace echelon
