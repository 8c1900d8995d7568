#include "text/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace echelon::data {
namespace {

/// UTF-8 of any number, well-formed or not, by the plain bit pattern.
std::string raw_utf8(std::uint32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | (code >> 6)), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | (code >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (code >> 18)), tail(12), tail(6), tail(0)};
}

TEST(Utf8, AcceptsEveryCharacterAndNothingBeyond) {
  for (std::uint32_t code = 0; code < 0x200000; ++code) {
    const bool valid = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    ASSERT_EQ(find_invalid_utf8(raw_utf8(code)) == std::string::npos, valid) << std::hex << code;
  }
}

TEST(Utf8, AcceptsExactlyOneTwoByteSequencePerCharacter) {
  int accepted = 0;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      accepted +=
          find_invalid_utf8(std::string{static_cast<char>(a), static_cast<char>(b)}) == std::string::npos;
    }
  }
  EXPECT_EQ(accepted, 128 * 128 + (0x800 - 0x80));
}

TEST(Utf8, NamesTheFirstBadByteAtEveryAlignment) {
  for (std::size_t before = 0; before < 40; ++before) {
    for (std::size_t after = 0; after < 20; ++after) {
      for (const std::string bad :
           {"\x80", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xC3"}) {
        const std::string text = std::string(before, 'a') + bad + std::string(after, 'b');
        ASSERT_EQ(find_invalid_utf8(text), before);
      }
    }
  }
  EXPECT_EQ(find_invalid_utf8("\xC3\xA4\xC3\xA4\xFF"), 4U);
  EXPECT_EQ(find_invalid_utf8(""), std::string::npos);
}

}  // namespace
}  // namespace echelon::data
