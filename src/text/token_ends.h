#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace echelon {

/// Where each of the tokens of `text` ends in it, in bytes; a token begins where the one before it ends.
/// White space that a special symbol takes with it belongs to it. Throws Error(kData) where the tokens do not
/// give the text again, as with a tokenizer that normalizes it.
[[nodiscard]] std::vector<std::size_t> token_ends(const Tokenizer& tokenizer, std::string_view text,
                                                  std::span<const std::int32_t> ids);

}  // namespace echelon
