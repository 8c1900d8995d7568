#include "recipe/yaml/characters.h"

#include <cstdint>
#include <iomanip>

#include "base/foreign_text.h"
#include "base/str.h"

namespace echelon::recipe {
namespace {

std::string code_point_name(std::uint32_t code) {
  return str("U+", std::hex, std::uppercase, std::setfill('0'), std::setw(code > 0xFFFF ? 6 : 4), code);
}

std::string problem_of(std::uint32_t code) {
  if (code == '\t') return "is a tab; use spaces";
  if (code == '\n' || code == '\r') return "is a line break";
  if (code == 0) return "is a NUL byte; is this a text file?";
  if (code < 0x20 || (code >= 0x7F && code <= 0x9F))
    return str("is the control character ", code_point_name(code), "; remove it");
  if (code == 0xFEFF) return "is a byte order mark; save the file as UTF-8 without one";
  // Invisible characters, and those that reorder text on the screen: recipes that look the same must be the
  // same.
  const bool hidden = code == 0xAD || (code >= 0x200B && code <= 0x200F) ||
                      (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) ||
                      (code >= 0xFFF9 && code <= 0xFFFF) || (code >= 0xE0000 && code <= 0xE0FFF);
  if (hidden) return str("is the invisible character ", code_point_name(code), "; remove it");
  if (code == 0xA0 || code == 0x3000 || (code >= 0x2000 && code <= 0x200A)) {
    return str("is the unusual space ", code_point_name(code), "; use a plain space");
  }
  return "";
}

}  // namespace

Character character_at(std::string_view text, std::size_t at) {
  const std::size_t bytes = utf8_length(text.substr(at, 4));
  if (bytes == 0) return {1, "is not valid UTF-8; save the file as UTF-8"};
  return {bytes, problem_of(code_point(text.substr(at, bytes)))};
}

std::string first_character_problem(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    Character character = character_at(text, at);
    if (!character.problem.empty()) return std::move(character.problem);
    at += character.bytes;
  }
  return "";
}

std::string check_characters(std::string_view text, std::size_t source, Faults& faults) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    faults.add({source, 1, 1}, "the file is UTF-16 text; save it as UTF-8");
    return "";
  }
  if (text.starts_with(kByteOrderMark)) {
    faults.add({source, 1, 1}, "the file starts with a byte order mark; save it as UTF-8 without one");
    text.remove_prefix(kByteOrderMark.size());
  }
  std::string clean;
  Position position{source, 1, 1};
  int reported_line = 0;  // one report per line: a line of tabs or binary data is one mistake
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const bool line_end = text[at] == '\n' || (text[at] == '\r' && text.substr(at + 1).starts_with('\n'));
    if (!character.problem.empty() && !line_end) {
      if (reported_line != position.line) faults.add(position, str("this character ", character.problem));
      reported_line = position.line;
      // One character replaces one, which keeps positions. Blanks replace blanks, which keeps the
      // indentation.
      clean += character.problem.find("space") != std::string::npos ? ' ' : '_';
    } else {
      clean += text.substr(at, character.bytes);
    }
    at += character.bytes;
    ++position.column;
    if (clean.back() == '\n') position = {source, position.line + 1, 1};
  }
  return clean;
}

}  // namespace echelon::recipe
