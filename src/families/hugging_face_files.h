#pragma once
#include <map>
#include <string>

#include "base/dtype.h"
#include "checkpoint/format/json.h"

namespace echelon::families {

/// Returns config.json with the element type `dtype`, of floating point, if it states an element type; every
/// byte as it is where it states this one. Throws Error(kCheckpoint) when it is not a JSON object.
[[nodiscard]] std::string config_with_dtype(const std::string& text, DType dtype);

/// A config.json with these members; unchanged where it has them already, or where a flag is absent whose
/// value is transformers' default, true.
[[nodiscard]] std::string config_with_members(const std::string& text,
                                              const std::map<std::string, checkpoint::Json>& members);

/// A config.json with the special ids of the generation_config.json beside it, by which transformers'
/// generate goes: a checkpoint has them in one place. `generation`: empty where there is none; `where`: what
/// precedes the files' names in errors. Throws Error(kCheckpoint) when one is not a JSON object.
[[nodiscard]] std::string config_with_ids(const std::string& text, const std::string& generation,
                                          const std::string& where);

/// Returns a generation_config.json with the special ids of `config`: `existing` with these ids, or a new one
/// if `existing` is empty. Empty for a model that does not state how text ends. Text that is no JSON object
/// is returned unchanged.
[[nodiscard]] std::string generation_config(const std::string& config, const std::string& existing);

/// Returns the tokenizer_config.json that transformers' AutoTokenizer needs beside a tokenizer.json. It names
/// the special symbols whose ids config.json states. Empty if `tokenizer` is not understood.
[[nodiscard]] std::string tokenizer_config(const std::string& config, const std::string& tokenizer);

/// Returns `existing`, with another end of text only if its own is none of the ends in `config`.
[[nodiscard]] std::string tokenizer_config_with_end(const std::string& existing, const std::string& config,
                                                    const std::string& tokenizer);

}  // namespace echelon::families
