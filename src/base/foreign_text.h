#pragma once
#include <cstddef>
#include <string>
#include <string_view>

/// Text that others wrote (paths, what stands in files, what a child process says), made fit to be shown: a
/// terminal obeys none of it and a reader of JSON gets JSON.
namespace echelon {

/// `text` in one line of valid UTF-8 that changes nothing on a terminal but the place it stands at. Control
/// characters (line breaks and tabs too), characters that are not seen, look like a space or change the
/// direction of what follows, and bytes that are no UTF-8 become \xNN, byte by byte; everything else stays.
/// For messages, tables and strings in JSON.
[[nodiscard]] std::string foreign_text(std::string_view text);

/// The same line by line, for logs: line feeds and tabs stay.
[[nodiscard]] std::string terminal_text(std::string_view text);

/// JSON in UTF-8 with \uNNNN for what terminal_text() would change.
[[nodiscard]] std::string plain_json(const std::string& json);

/// For machines, and safe on a terminal: `value`, an nlohmann object, as JSON. Parts of a text that are not
/// UTF-8 become U+FFFD, where dump() alone would throw. `indent`: -1 for one line.
template <class Json>
[[nodiscard]] std::string json_text(const Json& value, int indent = 2) {
  return plain_json(value.dump(indent, ' ', false, Json::error_handler_t::replace));
}

/// Bytes of the well-formed UTF-8 sequence that `text` starts with (Unicode 15, table 3-7: no overlong forms,
/// no surrogates, nothing above U+10FFFF); 0 when there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

}  // namespace echelon
