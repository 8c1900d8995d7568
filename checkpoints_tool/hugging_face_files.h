#pragma once
#include <map>
#include <string>

namespace echelon::tool {

/// A config.json whose element type, where it states one, is that of weights in `dtype`: fp32 or bf16; "same"
/// leaves every byte as it is. Throws Error(kCheckpoint) when it is not a JSON object.
[[nodiscard]] std::string config_with_dtype(const std::string& text, const std::string& dtype);

/// A config.json with these members true or false; unchanged where they already are, or are absent and the
/// value is transformers' default, true.
[[nodiscard]] std::string config_with_flags(const std::string& text,
                                            const std::map<std::string, bool>& flags);

}  // namespace echelon::tool
