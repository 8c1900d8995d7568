#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text/bpe/tokenizer_json.h"
#include "text/json_field.h"

/// The steps of a tokenizer.json around its model. For source files of this module only; all functions throw
/// Error(kData) naming the field.
namespace echelon::data {

inline constexpr std::size_t kLongestToken = 65536;
inline constexpr std::size_t kMostSteps = 64;

/// A text of 1 to kLongestToken bytes.
[[nodiscard]] const std::string& token_text(const JsonField& field);

/// The parts of a step: `step` itself, or what a Sequence holds under `name`.
[[nodiscard]] std::vector<JsonField> steps_of(const std::optional<JsonField>& step, const char* name);

[[nodiscard]] std::vector<NormalizerStep> read_normalizers(const JsonField& root);

/// Sets splits, byte_level and metaspace.
void read_pre_tokenizers(const JsonField& root, TokenizerSteps& out);

/// Sets decoders; the pre-tokenizers have been read.
void read_decoders(const JsonField& root, TokenizerSteps& out);

}  // namespace echelon::data
