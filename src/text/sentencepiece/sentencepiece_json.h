#pragma once
#include <string>
#include <string_view>

namespace echelon::data {

/// Returns a tokenizer.json with which the package `tokenizers` gives the ids of a sentencepiece model. So
/// transformers needs no sentencepiece. It puts BOS in front of a text where the model has one, as a document
/// begins, and with `sources` EOS behind it, as a source of pairs ends. Empty for a model that has no such
/// file: words or characters as pieces, BPE that shrinks spaces or rewrites text, spaces behind words. A
/// literal U+2581 in a text counts as a space there. `model_bytes`: the bytes of a model that loads.
[[nodiscard]] std::string tokenizer_json_of(std::string_view model_bytes, bool sources);

}  // namespace echelon::data
