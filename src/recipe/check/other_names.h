#pragma once
#include <span>
#include <string_view>

namespace echelon::recipe {

/// What other trainers call a key, for did-you-mean.
struct OtherName {
  std::string_view name;  ///< without section
  std::string_view path;  ///< our key
};

[[nodiscard]] std::span<const OtherName> other_names();

/// What other trainers, or older recipes, call a value.
struct OtherValue {
  std::string_view path;   ///< our key; empty: every key that takes `value`
  std::string_view name;   ///< in lower case
  std::string_view value;  ///< ours
};

[[nodiscard]] std::span<const OtherValue> other_values();

}  // namespace echelon::recipe
