#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace echelon {

/// The search for continuations.
struct GenerateOptions {
  std::int64_t max_new_tokens = 64;
  std::vector<std::int64_t> end_ids;  ///< each of these tokens ends a continuation

  std::int64_t beams = 1;  ///< continuations kept of each prompt; above one the most likely is searched for
  double length_penalty = 1.0;  ///< a continuation of n tokens scores log probability / n^this

  double temperature = 0.0;       ///< 0: the likeliest token each time; 1: drawn as predicted. Needs one beam
  std::int64_t top_k = 0;         ///< draw among so many likeliest tokens; 0: among all
  double top_p = 1.0;             ///< draw among the likeliest tokens that have this share together
  std::uint64_t seed = 1;         ///< of what is drawn
  std::int64_t first_prompt = 0;  ///< number of the first prompt: draws depend on seed, prompt and place only

  [[nodiscard]] bool ends(std::int64_t id) const {
    return std::find(end_ids.begin(), end_ids.end(), id) != end_ids.end();
  }
};

}  // namespace echelon
