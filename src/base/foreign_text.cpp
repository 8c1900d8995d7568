#include "base/foreign_text.h"

namespace echelon {
namespace {

bool is_control(std::string_view sequence) {
  const auto byte = static_cast<unsigned char>(sequence[0]);
  if (byte == '\n' || byte == '\t') return false;
  if (byte < 0x20 || byte == 0x7F) return true;
  return byte == 0xC2 && static_cast<unsigned char>(sequence[1]) < 0xA0;  // U+0080 to U+009F
}

void append_hex(std::string& out, char c) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  out += {'\\', 'x', kHex[byte >> 4U], kHex[byte & 15U]};
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

std::string without_controls(const std::string& json) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  if (json.find_first_of("\x7F\xC2") == std::string::npos) return json;
  std::string out;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const bool two = json[at] == '\xC2' && at + 1 < json.size();  // UTF-8 by now
    if (json[at] != '\x7F' && !(two && is_control(std::string_view(json).substr(at, 2)))) {
      out += json[at];
      continue;
    }
    const auto code = static_cast<unsigned char>(two ? json[++at] : json[at]);
    out += "\\u00";
    out += {kHex[code >> 4U], kHex[code & 15U]};
  }
  return out;
}

std::string terminal_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at, 4));
    const std::string_view sequence = text.substr(at, length == 0 ? 1 : length);
    if (length != 0 && !is_control(sequence)) {
      out += sequence;
    } else {
      for (const char c : sequence) append_hex(out, c);
    }
    at += sequence.size();
  }
  return out;
}

}  // namespace echelon
