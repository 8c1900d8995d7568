#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Numbers and words as people write them: in a recipe or on a command line decimal, finite, one notation.
namespace echelon {

// Each returns what is wrong with a text, to be put after the text itself ("is not a number"), or "".

/// Decimal digits with a sign or none.
[[nodiscard]] std::string read_integer(const std::string& text, std::int64_t& value);
/// A finite decimal fraction with exponent or none.
[[nodiscard]] std::string read_number(const std::string& text, double& value);

/// Reads a number of bytes above 0 with a unit: B, kB, MB, GB, TB, PB (1000), KiB, MiB, GiB, TiB, PiB (1024).
/// Same result rule. A number alone is refused: 16 rarely means 16 bytes.
[[nodiscard]] std::string read_bytes(const std::string& text, double& value);

/// ASCII letters in lower case: units and names are read without regard to case.
[[nodiscard]] std::string in_lower_case(std::string_view text);

/// Returns the parts of `text` between blanks, none of them empty.
[[nodiscard]] std::vector<std::string_view> words_in(std::string_view text);
/// Returns whether `word` is one of words_in(text).
[[nodiscard]] bool has_word(std::string_view text, std::string_view word);

/// Returns whether `c` is one of [A-Za-z0-9._-], which files, hosts and nodes may have in their names.
[[nodiscard]] bool belongs_in_name(char c);
/// Returns `text` without the white space at its ends.
[[nodiscard]] std::string trimmed(std::string_view text);

/// Writes `value` with `digits` behind the point: fixed(2, 1) is "2.0".
[[nodiscard]] std::string fixed(double value, int digits);

/// Returns `value` with `digits` behind the point, to be shown: rounded(2.04, 1) is 2.
[[nodiscard]] double rounded(double value, int digits);

/// Returns `text` with spaces behind it: up to `width`, at least one.
[[nodiscard]] std::string padded(std::string text, std::size_t width);

}  // namespace echelon
