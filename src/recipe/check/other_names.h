#pragma once
#include <span>
#include <string_view>

namespace echelon::recipe {

/// A feature that other trainers have and a recipe does not.
struct Absent {
  std::string_view name;     ///< of a section or key; also a word at its begin or end: "lora" of "lora_rank"
  std::string_view instead;  ///< one sentence
};

[[nodiscard]] std::span<const Absent> absent();

/// A key's name in other programs; those of translated configurations are in equivalents.cpp.
struct OtherKey {
  std::string_view path;  ///< as if it were a key
  std::string_view key;   ///< ours
};

[[nodiscard]] std::span<const OtherKey> other_keys();

/// A value's name in another trainer or in older recipes.
struct OtherValue {
  std::string_view path;   ///< our key; empty: every key that accepts `value`
  std::string_view name;   ///< in lower case
  std::string_view value;  ///< ours
};

[[nodiscard]] std::span<const OtherValue> other_values();

}  // namespace echelon::recipe
