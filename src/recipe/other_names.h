#pragma once
#include <string_view>
#include <vector>

namespace echelon::recipe {

/// What other trainers call a key, for did-you-mean.
struct OtherName {
  std::string_view name;  ///< without section
  std::string_view path;  ///< our key
};

[[nodiscard]] const std::vector<OtherName>& other_names();

}  // namespace echelon::recipe
