#pragma once
#include <string>
#include <string_view>

namespace echelon::data {

/// Rewrites a regular expression of a tokenizer.json for PCRE2. `tokenizers` gives it to Oniguruma (Ruby
/// syntax, Unicode 16); PCRE2 means other characters by \s, \h and \v, and the Unicode version of a
/// distribution's PCRE2 is older, so \s and \p{..} become explicit sets. `field` says where it stands. Throws
/// Error(kData) naming construct and field for what the two engines do not read alike: \w, \b, scripts
/// (\p{Han}), back references, sets in sets, inline options but (?i.
[[nodiscard]] std::string pcre2_syntax(std::string_view pattern, std::string_view field);

}  // namespace echelon::data
