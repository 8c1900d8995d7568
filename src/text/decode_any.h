#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "text/tokenizer.h"

namespace echelon::data {

/// Tokenizer::decode() for the ids of a model, whose vocabulary may be larger than the tokenizer's: an id
/// that the tokenizer does not have becomes U+FFFD.
[[nodiscard]] std::string decode_any(const Tokenizer& tokenizer, std::span<const std::int32_t> ids);

}  // namespace echelon::data
