#pragma once
#include <map>
#include <string>

#include "checkpoint/format/json.h"
#include "families/output_type.h"

namespace echelon::families {

/// A config.json whose element type, where it states one, is that of weights in `dtype`: fp32 or bf16; kSame
/// leaves every byte as it is. Throws Error(kCheckpoint) when it is not a JSON object.
[[nodiscard]] std::string config_with_dtype(const std::string& text, OutputType dtype);

/// A config.json with these members; unchanged where it has them already, or where a flag is absent whose
/// value is transformers' default, true.
[[nodiscard]] std::string config_with_members(const std::string& text,
                                              const std::map<std::string, checkpoint::Json>& members);

/// A config.json with the special ids of the generation_config.json beside it, by which transformers'
/// generate goes: a checkpoint has them in one place. `generation`: empty where there is none; `where`: what
/// precedes the files' names in errors. Throws Error(kCheckpoint) when one is not a JSON object.
[[nodiscard]] std::string config_with_ids(const std::string& text, const std::string& generation,
                                          const std::string& where);

/// A generation_config.json with the special ids of `config`: `existing`, or, where that is empty, a new one;
/// empty for a model that does not state how text ends. What is no JSON object comes back as it is.
[[nodiscard]] std::string generation_config(const std::string& config, const std::string& existing);

/// What transformers' AutoTokenizer needs beside a tokenizer.json: a tokenizer_config.json that names the
/// special symbols whose ids config.json states. Empty where `tokenizer` is not understood.
[[nodiscard]] std::string tokenizer_config(const std::string& config, const std::string& tokenizer);

/// `existing`, which names another end of text only where that is none of the ends in `config`.
[[nodiscard]] std::string tokenizer_config_with_end(const std::string& existing, const std::string& config,
                                                    const std::string& tokenizer);

}  // namespace echelon::families
