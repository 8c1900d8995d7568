#include "text/bpe/byte_alphabet.h"

#include <array>

namespace echelon::data {
namespace {

constexpr std::size_t kLastCode = 0x143;

constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<unsigned, 256> code{};       // byte -> character
  std::array<int, kLastCode + 1> byte{};  // character -> byte, -1: none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int& byte : alphabet.byte) byte = -1;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned code = is_printable(byte) ? byte : next++;
    alphabet.code[byte] = code;
    alphabet.byte[code] = static_cast<int>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string byte_character(unsigned char byte) {
  const unsigned code = kAlphabet.code[byte];
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

std::optional<std::string> bytes_of(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    unsigned code = static_cast<unsigned char>(token[at++]);
    if (code >= 0x80) {  // all relevant ones have two bytes
      if (code >= 0xE0 || at == token.size()) return std::nullopt;
      code = ((code & 0x1f) << 6) | (static_cast<unsigned char>(token[at++]) & 0x3f);
    }
    if (code > kLastCode || kAlphabet.byte[code] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte[code]);
  }
  return bytes;
}

}  // namespace echelon::data
