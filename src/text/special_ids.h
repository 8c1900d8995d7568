#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

/// The ids that a model ends text with, as the files of a Hugging Face folder state them.
namespace echelon {

struct SpecialIds {
  std::vector<std::int32_t> ends;  ///< each ends a text; empty: not stated
  std::string end_token;           ///< the one behind a document, by tokenizer_config.json; empty: not stated
};

/// Returns `eos_token_id` of a config.json or generation_config.json: one id or several. `what` names the
/// file. Throws Error(kData) for anything else.
[[nodiscard]] std::vector<std::int32_t> end_ids_of(const std::string& config, const std::string& what);

/// Returns the id behind a document that such a model is trained on. It is the end that the tokenizer's
/// configuration names, else the tokenizer's own EOS if that is an end or no ends are known, else the first
/// end. -1: there is none.
[[nodiscard]] std::int32_t document_end(const SpecialIds& ids, const Tokenizer& tokenizer);

/// The tokenizer with another EOS, which may be above its own ids; unchanged for -1.
[[nodiscard]] std::unique_ptr<const Tokenizer> ending_with(std::unique_ptr<const Tokenizer> tokenizer,
                                                           std::int32_t eos);

}  // namespace echelon
