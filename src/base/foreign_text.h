#pragma once
#include <cstddef>
#include <string>
#include <string_view>

/// Text that others made (paths, names, lines of files and of other programs) on its way out: whatever its
/// bytes are, a terminal obeys none of them and a reader of JSON gets JSON.
namespace echelon {

/// Length of the well-formed UTF-8 sequence at the start of `text` (Unicode 15, table 3-7); 0: there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

/// For terminals and logs, of any length: well-formed UTF-8 stays as it is, with its line breaks and tabs;
/// other control characters (C1 too) and bytes that are not UTF-8 become \xNN.
[[nodiscard]] std::string terminal_text(std::string_view text);

/// JSON with the control characters that it may hold as they are (DEL, C1) as \u00NN instead.
[[nodiscard]] std::string without_controls(const std::string& json);

/// For machines, and safe on a terminal: `value`, an nlohmann object, as JSON. Parts of a text that are not
/// UTF-8 become U+FFFD, where dump() alone would throw. `indent`: -1 for one line.
template <class Json>
[[nodiscard]] std::string json_text(const Json& value, int indent = 2) {
  return without_controls(value.dump(indent, ' ', false, Json::error_handler_t::replace));
}

}  // namespace echelon
