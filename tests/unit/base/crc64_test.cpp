#include "base/checksum/crc64.h"

#include <gtest/gtest.h>

#include <string>

#include "unit/base/checksum_texts.h"

namespace echelon {
namespace {

// One bit at a time, straight from the definition: shares nothing with either path under test.
std::uint64_t by_definition(std::string_view text) {
  std::uint64_t crc = ~std::uint64_t{0};
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x9A6C9329AC4BC9B5U : 0U);
  }
  return ~crc;
}

// NVM Express NVM command set specification, figure "64b CRC test cases", and the catalogue's check value.
TEST(Crc64, KnowsThePublishedVectors) {
  EXPECT_EQ(crc64(view("")), 0U);
  EXPECT_EQ(crc64(view("123456789")), 0xAE8B14860A799888U);
  EXPECT_EQ(crc64(view(std::string(4096, '\0'))), 0x6482D367EB22B64EU);
  EXPECT_EQ(crc64(view(std::string(4096, '\xFF'))), 0xC0DDBA7302ECA3ACU);
}

TEST(Crc64, BothPathsAgreeWithTheDefinitionAtEveryLengthAndAlignment) {
  const std::string text = random_text(10000, 3);
  for (const std::size_t size : {0, 1, 7, 8, 9, 255, 256, 257, 319, 320, 511, 512, 1023, 4096, 9217}) {
    for (const std::size_t start : {0, 1, 3, 7, 64}) {
      const std::uint64_t expected = by_definition(std::string_view(text).substr(start, size));
      EXPECT_EQ(crc64(view(text).subspan(start, size)), expected) << size << " at " << start;
      EXPECT_EQ(crc64_portable(view(text).subspan(start, size)), expected) << size << " at " << start;
    }
  }
}

TEST(Crc64, ContinuesAndCombines) {
  const std::string text = random_text(9001, 3);
  for (const std::size_t cut : {0, 1, 5, 3072, 8000, 9001}) {
    const auto head = view(text).first(cut);
    const auto tail = view(text).subspan(cut);
    EXPECT_EQ(crc64(tail, crc64(head)), crc64(view(text))) << cut;
    EXPECT_EQ(crc64_combine(crc64(head), crc64(tail), tail.size()), crc64(view(text))) << cut;
  }
}

}  // namespace
}  // namespace echelon
