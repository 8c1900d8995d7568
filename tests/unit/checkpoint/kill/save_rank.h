#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

#include "unit/checkpoint/tiny_run.h"

/// What save_rank and the test that kills it agree on.
namespace echelon::checkpoint::test {

inline constexpr std::int64_t kKept = 3;  ///< commits that a prune leaves

/// No two attempts share an id, and so no folder.
inline std::string save_id_of(int attempt, std::int64_t step) {
  char text[9];
  std::snprintf(text, sizeof text, "%04x%04x", static_cast<unsigned>(attempt) & 0xFFFFU,
                static_cast<unsigned>(step) & 0xFFFFU);
  return text;
}

}  // namespace echelon::checkpoint::test
