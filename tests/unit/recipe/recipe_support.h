#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "recipe/parse.h"
#include "support/refusal.h"

namespace echelon::test {

inline std::string no_include(const std::filesystem::path& path) {
  throw Error(Code::kUsage, "no file " + path.string());
}

/// A text in memory named "r.yaml".
inline LoadedRecipe parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return recipe::parse_recipe_text("r.yaml", text, overrides, no_include);
}

/// The message a text is refused with, or "accepted".
inline std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return test::refusal(Code::kUsage, [&] { (void)parse(text, overrides); });
}

inline constexpr const char* kSynthetic = "data: {kind: synthetic_tokens}\n";

/// `text` without every `part` of it.
inline std::string without(std::string text, const std::string& part) {
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos;) text.erase(at, part.size());
  return text;
}

}  // namespace echelon::test
