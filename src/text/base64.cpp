#include "text/base64.h"

#include <cstdint>

namespace echelon::data {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      out += at + i <= bytes.size() ? kDigits[bits >> (18 - 6 * i) & 63U] : '=';
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  const std::string_view digits = text.substr(0, text.find('='));
  std::string out;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t digit = kDigits.find(digits[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 != 0) out += static_cast<char>(bits >> (6 - 2 * (i % 4)) & 0xFFU);
  }
  if (to_base64(out) != text) return std::nullopt;
  return out;
}

}  // namespace echelon::data
