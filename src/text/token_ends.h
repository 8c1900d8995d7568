#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace echelon {

/// Returns the end of each token in `text`, in bytes; a token begins at the end of the one before it. White
/// space that a special symbol consumes belongs to the symbol. Throws Error(kData) if the tokens do not give
/// the text again, as with a tokenizer that normalizes it.
[[nodiscard]] std::vector<std::size_t> token_ends(const Tokenizer& tokenizer, std::string_view text,
                                                  std::span<const std::int32_t> ids);

}  // namespace echelon
