#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// Makes untrusted text (paths, contents of files, output of child processes) safe to show: a terminal
/// executes none of it, and readers of JSON get valid JSON.
namespace echelon {

/// `text` as one line of valid UTF-8 without effects on a terminal. Control characters (including line breaks
/// and tabs), characters that are invisible, look like a space or change the text's direction, and bytes that
/// are not UTF-8 become \xNN, byte by byte; everything else stays. For messages, tables and strings in JSON.
[[nodiscard]] std::string foreign_text(std::string_view text);

/// foreign_text() line by line, for logs: line feeds and tabs stay.
[[nodiscard]] std::string terminal_text(std::string_view text);

/// foreign_text() as text of HTML and SVG, also within quotes.
[[nodiscard]] std::string as_html(std::string_view text);

/// JSON in UTF-8 with \uNNNN for what terminal_text() would change.
[[nodiscard]] std::string plain_json(const std::string& json);

/// Returns `value`, an nlohmann object, as JSON that is safe on a terminal. Parts of a text that are not
/// UTF-8 become U+FFFD, where dump() alone would throw. `indent`: -1 for one line.
template <class Json>
[[nodiscard]] std::string json_text(const Json& value, int indent = 2) {
  return plain_json(value.dump(indent, ' ', false, Json::error_handler_t::replace));
}

/// What some editors put in front of a text in UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// `text` without a byte order mark in front and without carriage returns at the ends of its lines, so that
/// text means the same whatever system it was written on.
[[nodiscard]] std::string unix_text(std::string_view text);

/// Bytes of the well-formed UTF-8 sequence that `text` starts with (Unicode 15, table 3-7: no overlong forms,
/// no surrogates, nothing above U+10FFFF); 0 when there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view text);
/// The code point of one such sequence; of a single byte that belongs to none, its value.
[[nodiscard]] std::uint32_t code_point(std::string_view sequence);

}  // namespace echelon
