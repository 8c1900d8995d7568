#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/tokenizer_json.h"

namespace echelon::data {

/// `text` (valid UTF-8) after the normalizers of a tokenizer.json, in order. Throws Error(kData) when the
/// library cannot (text above 1 GiB).
[[nodiscard]] std::string normalize(std::string_view text, const std::vector<NormalizerStep>& steps);

}  // namespace echelon::data
