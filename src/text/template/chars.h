#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Text of templates, with the source of each of its characters. For source files of this module only, but
/// for is_space().
namespace echelon::data::jinja {

/// Written by the template or the special tokens given to it.
inline constexpr std::int32_t kFromTemplate = -1;
inline constexpr std::int32_t kFromTools = -2;

struct Char {
  std::uint32_t code : 31;      ///< of Unicode
  std::uint32_t generated : 1;  ///< rendered between {% generation %} and {% endgeneration %}
  std::int32_t origin;          ///< kFromTemplate, kFromTools or the message's place, from 0

  /// Characters are compared by their code alone.
  bool operator==(const Char& other) const { return code == other.code; }
  bool operator<(const Char& other) const { return code < other.code; }
};

using Text = std::vector<Char>;

[[nodiscard]] inline Char make_char(std::uint32_t code, std::int32_t origin = kFromTemplate) {
  return {code & 0x7FFFFFFFU, 0, origin};
}

/// `utf8` must be well-formed.
[[nodiscard]] Text to_text(std::string_view utf8, std::int32_t origin = kFromTemplate);
[[nodiscard]] std::string to_utf8(const Text& text);
void append_utf8(std::uint32_t code, std::string& out);
void append(Text& text, const Text& more);
void append(Text& text, std::string_view ascii);

/// Python's str.isspace() and str.isprintable().
[[nodiscard]] bool is_space(std::uint32_t code);
[[nodiscard]] bool is_printable(std::uint32_t code);

[[nodiscard]] Text slice(const Text& text, std::size_t begin, std::size_t end);
/// Returns `text` without the characters of `set` (null: white space) at the chosen ends.
[[nodiscard]] Text strip(const Text& text, const Text* set, bool left, bool right);
/// Returns the first place of `part` at or behind `from`; text.size() + 1 if there is none.
[[nodiscard]] std::size_t find(const Text& text, const Text& part, std::size_t from = 0);

/// Python's str.upper(), lower(), capitalize() and title().
[[nodiscard]] Text upper(const Text& text);
[[nodiscard]] Text lower(const Text& text);
[[nodiscard]] Text capitalize(const Text& text);
[[nodiscard]] Text title(const Text& text);

}  // namespace echelon::data::jinja
