#pragma once
#include <map>
#include <string>
#include <string_view>

namespace echelon::tool {

/// Does a file of this name belong to the weights of a Hugging Face folder: a tokenizer's, or
/// generation_config.json?
[[nodiscard]] bool is_companion_file(std::string_view name);

/// A config.json whose element type, where it states one, is that of weights in `dtype`: fp32 or bf16; "same"
/// leaves every byte as it is. Throws Error(kCheckpoint) when it is not a JSON object.
[[nodiscard]] std::string config_with_dtype(const std::string& text, const std::string& dtype);

/// A config.json with these members true or false; unchanged where they already are, or are absent and the
/// value is transformers' default, true.
[[nodiscard]] std::string config_with_flags(const std::string& text,
                                            const std::map<std::string, bool>& flags);

}  // namespace echelon::tool
