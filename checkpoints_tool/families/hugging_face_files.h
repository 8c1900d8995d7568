#pragma once
#include <map>
#include <string>

#include "checkpoints_tool/output_type.h"

namespace echelon::tool {

/// A config.json whose element type, where it states one, is that of weights in `dtype`: fp32 or bf16; kSame
/// leaves every byte as it is. Throws Error(kCheckpoint) when it is not a JSON object.
[[nodiscard]] std::string config_with_dtype(const std::string& text, OutputType dtype);

/// A config.json with these members true or false; unchanged where they already are, or are absent and the
/// value is transformers' default, true.
[[nodiscard]] std::string config_with_flags(const std::string& text,
                                            const std::map<std::string, bool>& flags);

/// What transformers' generate needs of a config.json: a generation_config.json with its special ids. Empty
/// for a model that does not state how text ends.
[[nodiscard]] std::string generation_config(const std::string& config);

/// What transformers' AutoTokenizer needs beside a tokenizer.json: a tokenizer_config.json that names the
/// special symbols whose ids config.json states. Empty where `tokenizer` is not understood.
[[nodiscard]] std::string tokenizer_config(const std::string& config, const std::string& tokenizer);

}  // namespace echelon::tool
