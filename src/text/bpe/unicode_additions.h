#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace echelon::data {

/// Characters first to last, of one general category ("Lu", "Nd", ...).
struct AddedCharacters {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::string_view category;
};

/// The characters that Unicode 14, 15, 15.1 and 16 assigned, in the order of code points. Distributions carry
/// PCRE2 with Unicode 13 to 16; the regular expressions of a tokenizer.json mean Unicode 16.
[[nodiscard]] std::span<const AddedCharacters> unicode_additions();

}  // namespace echelon::data
