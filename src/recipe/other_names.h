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

}  // namespace echelon::recipe
