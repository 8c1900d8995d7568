#include "base/foreign_text.h"

#include <algorithm>

#include "base/str.h"

namespace echelon {
namespace {

/// True for characters that control a terminal, are invisible, change the text's direction, or look like a
/// space.
bool is_unsafe(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code <= 0xA0)) return true;
  return code == 0xAD || code == 0x61C || code == 0x3000 || (code >= 0x2000 && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202F) || (code >= 0x205F && code <= 0x206F) || code == 0xFEFF ||
         (code >= 0xFFF9 && code <= 0xFFFB) || (code >= 0xE0000 && code <= 0xE0FFF);
}

void append_hex(std::string& out, std::string_view bytes) {
  for (const char c : bytes) out += "\\x" + hex_digits(static_cast<unsigned char>(c), 2);
}

/// `text`, safe to show, up to the first character that starts at or after byte `max`.
std::string safe(std::string_view text, std::size_t max, bool keep_lines) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size() && at < max) {
    const std::size_t length = utf8_length(text.substr(at, 4));
    const std::string_view character = text.substr(at, length == 0 ? 1 : length);
    const bool line_end = keep_lines && (character == "\n" || character == "\t");
    if (line_end || (length != 0 && !is_unsafe(code_point(character)))) {
      out += character;
    } else {
      append_hex(out, character);
    }
    at += character.size();
  }
  return at < text.size() ? out + "..." : out;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i, unsigned low, unsigned high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  if (text.empty()) return 0;
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return follows(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) && follows(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

std::uint32_t code_point(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  std::uint32_t code = byte(0) & (0x7FU >> sequence.size());
  for (std::size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3FU);
  return code;
}

std::string plain_json(const std::string& json) {
  std::string out;
  for (std::size_t at = 0; at < json.size();) {
    const std::string_view character = std::string_view(json).substr(
        at, std::max<std::size_t>(1, utf8_length(std::string_view(json).substr(at, 4))));
    at += character.size();
    const std::uint32_t code = code_point(character);
    // Below 0x7F dump() has escaped all control characters but line breaks.
    if (code < 0x7F || !is_unsafe(code)) {
      out += character;
    } else if (code < 0x10000) {
      out += "\\u" + hex_digits(code, 4);
    } else {
      out += "\\u" + hex_digits(0xD800 + ((code - 0x10000) >> 10), 4);
      out += "\\u" + hex_digits(0xDC00 + ((code - 0x10000) & 0x3FFU), 4);
    }
  }
  return out;
}

std::string unix_text(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool ends_line = text[at] == '\r' && (at + 1 == text.size() || text[at + 1] == '\n');
    if (!ends_line) out += text[at];
  }
  return out;
}

std::string foreign_text(std::string_view text) {
  return safe(text, std::string_view::npos, false);
}

std::string terminal_text(std::string_view text) {
  return safe(text, std::string_view::npos, true);
}

std::string as_html(std::string_view text) {
  std::string safe;
  for (const char c : foreign_text(text)) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      case '\'': safe += "&#39;"; break;
      default: safe += c;
    }
  }
  return safe;
}

std::string printable(std::string_view text, std::size_t max) {
  return safe(text, max, false);
}

}  // namespace echelon
