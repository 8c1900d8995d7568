#pragma once
#include <string>
#include <string_view>

#include "text/sentencepiece/normalizer_table.h"

namespace echelon::data {

/// `text` (valid UTF-8) after the normalizer Precompiled of a tokenizer.json, as `tokenizers` applies it. A
/// letter with its marks (a grapheme cluster) of less than six bytes is replaced as a whole where a rule
/// begins it, even if the rule does not name the marks. All other characters are looked up one by one.
[[nodiscard]] std::string apply_charsmap(const NormalizerTable& table, std::string_view text);

}  // namespace echelon::data
