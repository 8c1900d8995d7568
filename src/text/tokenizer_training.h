#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace echelon::data {

/// Trains a sentencepiece BPE model and returns its bytes, a pure function of the arguments. Text is taken
/// verbatim (identity normalization, no dummy prefix, all white space kept), newline and tab are symbols of
/// their own, digits are split, rare characters fall back to their bytes. Ids: 0 <unk>, 1 <s> (BOS), 2 </s>
/// (EOS). `lines`: text without newlines. The model may have fewer pieces than `vocab_size` when the text
/// offers no more. Throws Error(kData) when the text needs more pieces or gives none.
[[nodiscard]] std::string train_tokenizer(const std::vector<std::string>& lines, std::int64_t vocab_size);

/// Bytes, control symbols, newline, tab and room for characters.
inline constexpr std::int64_t kSmallestVocabulary = 300;
inline constexpr std::int64_t kLargestVocabulary = 1000000;

}  // namespace echelon::data
