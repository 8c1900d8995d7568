#pragma once
#include <string>
#include <string_view>

namespace echelon::recipe {

/// Returns what a text is that is no recipe, and what to do with it: "a TOML file, such as torchtitan's;
/// ...". Empty if the text has no known mark.
[[nodiscard]] std::string foreign_file(std::string_view text);

}  // namespace echelon::recipe
