#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/options.h"

/// What `echelon prepare` left beside token files.
namespace echelon::data {

/// Member of `chat` in prepare.json: the tokens with which trained turns end.
inline constexpr const char* kTurnEndIds = "turn_end_ids";

/// The token file beside which the tokenizer lies: `path`, or the first of a mixture.
[[nodiscard]] const std::string& first_file(const DataOptions& options);

/// The tokens with which trained turns end in the token files, each once, as the prepare.json beside each
/// file says. Empty: none says it, as that of an earlier version.
[[nodiscard]] std::vector<std::int32_t> trained_turn_ends(const DataOptions& options);

}  // namespace echelon::data
