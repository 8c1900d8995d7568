#pragma once
#include <string>
#include <vector>

#include "text/bpe/tokenizer_json.h"

namespace echelon::data {

/// The text of `tokens`, as their vocabulary writes them (valid UTF-8), after the steps of a decoder.
[[nodiscard]] std::string decode_tokens(std::vector<std::string> tokens,
                                        const std::vector<DecoderStep>& steps);

/// Returns the bytes that one token stands for within a text. Steps that change neighbors, or the start of a
/// text, are left out.
[[nodiscard]] std::string bytes_of_token(std::string token, const std::vector<DecoderStep>& steps);

}  // namespace echelon::data
