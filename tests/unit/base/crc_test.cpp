#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/checksum/crc32c.h"
#include "base/checksum/crc64.h"
#include "unit/base/checksum_texts.h"

namespace echelon {
namespace {

struct Of32Bits {
  using Sum = std::uint32_t;
  static constexpr Sum kPolynomial = 0x82F63B78U;
  static Sum sum(std::span<const std::byte> bytes, Sum before = 0) { return crc32c(bytes, before); }
  static constexpr auto portable = crc32c_portable;
  static constexpr auto combine = crc32c_combine;
};
struct Of64Bits {
  using Sum = std::uint64_t;
  static constexpr Sum kPolynomial = 0x9A6C9329AC4BC9B5U;
  static Sum sum(std::span<const std::byte> bytes, Sum before = 0) { return crc64(bytes, before); }
  static constexpr auto portable = crc64_portable;
  static constexpr auto combine = crc64_combine;
};

// One bit at a time, straight from the definition: shares nothing with either path under test.
template <class Crc>
typename Crc::Sum by_definition(const std::string& text) {
  typename Crc::Sum crc = ~typename Crc::Sum{0};
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? Crc::kPolynomial : 0U);
  }
  return ~crc;
}

template <class Crc>
void expect_both_paths_agree() {
  const std::string text = random_text(10000, 1);
  for (const std::size_t size : {0,   1,   7,    8,    9,    63,   64,   255,  256,  257,  319, 320,
                                 511, 512, 1023, 3071, 3072, 3073, 3080, 4096, 6144, 9215, 9217}) {
    for (const std::size_t start : {0, 1, 3, 7, 64}) {
      const auto expected = by_definition<Crc>(text.substr(start, size));
      EXPECT_EQ(Crc::sum(view(text).subspan(start, size)), expected) << size << " at " << start;
      EXPECT_EQ(Crc::portable(view(text).subspan(start, size), 0), expected) << size << " at " << start;
    }
  }
}

TEST(Crc32c, BothPathsAgreeWithTheDefinitionAtEveryLengthAndAlignment) {
  expect_both_paths_agree<Of32Bits>();
}
TEST(Crc64, BothPathsAgreeWithTheDefinitionAtEveryLengthAndAlignment) {
  expect_both_paths_agree<Of64Bits>();
}

template <class Crc>
void expect_continues_and_combines() {
  const std::string text = random_text(9001, 2);
  const auto whole = Crc::sum(view(text));
  for (const std::size_t cut : {0, 1, 2, 5, 255, 3072, 4096, 8000, 9000, 9001}) {
    const auto head = view(text).first(cut);
    const auto tail = view(text).subspan(cut);
    EXPECT_EQ(Crc::sum(tail, Crc::sum(head)), whole) << cut;
    EXPECT_EQ(Crc::portable(tail, Crc::portable(head, 0)), whole) << cut;
    EXPECT_EQ(Crc::combine(Crc::sum(head), Crc::sum(tail), tail.size()), whole) << cut;
  }
}

TEST(Crc32c, ContinuesAndCombines) {
  expect_continues_and_combines<Of32Bits>();
}
TEST(Crc64, ContinuesAndCombines) {
  expect_continues_and_combines<Of64Bits>();
}

// NVM Express NVM command set specification, figure "64b CRC test cases", and the catalogue's check value.
TEST(Crc64, KnowsThePublishedVectors) {
  EXPECT_EQ(crc64(view("")), 0U);
  EXPECT_EQ(crc64(view("123456789")), 0xAE8B14860A799888U);
  EXPECT_EQ(crc64(view(std::string(4096, '\0'))), 0x6482D367EB22B64EU);
  EXPECT_EQ(crc64(view(std::string(4096, '\xFF'))), 0xC0DDBA7302ECA3ACU);
}

// RFC 3720 (iSCSI), appendix B.4, and the usual check value.
TEST(Crc32c, KnowsThePublishedVectors) {
  EXPECT_EQ(crc32c(view("")), 0U);
  EXPECT_EQ(crc32c(view("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c(view(std::string(32, '\0'))), 0x8A9136AAU);
  EXPECT_EQ(crc32c(view(std::string(32, '\xFF'))), 0x62A8AB43U);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i);
  EXPECT_EQ(crc32c(view(rising)), 0x46DD794EU);
  EXPECT_EQ(crc32c(view(std::string(rising.rbegin(), rising.rend()))), 0x113FDB5CU);
}

TEST(Crc32c, CopyDeliversTheBytesAndTheirSumToAnyPlace) {
  const std::string text = random_text(20011, 3);
  alignas(64) static std::array<std::byte, 20032> place;
  for (const std::size_t start : {0, 1}) {  // aligned, and not
    for (const std::size_t size : {0, 1, 8, 100, 3072, 4096, 8192, 8200, 20010}) {
      place.fill(std::byte{0x5A});
      const auto to = std::span(place).subspan(start);
      const auto from = view(text).subspan(1, size);
      EXPECT_EQ(crc32c_copy(to.first(size), from), crc32c(from)) << size << " at " << start;
      EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin())) << size << " at " << start;
      EXPECT_EQ(to[size], std::byte{0x5A}) << "wrote past the end";
    }
  }
}

TEST(Crc32c, CombinesAcrossLengthsNoBufferCouldHold) {
  // 2^40 zero bytes by doubling must equal the same length given at once.
  const std::string zero(1024, '\0');
  std::uint32_t crc = crc32c(view(zero));
  for (std::uint64_t length = 1024; length < (1ULL << 40); length *= 2)
    crc = crc32c_combine(crc, crc, length);
  const std::uint32_t head = crc32c(view("head"));
  std::uint32_t stepwise = head;
  std::uint32_t part = crc32c(view(zero));
  std::uint64_t length = 1024;
  // 2^40 = 1024 + 1024 + 2048 + 4096 + ... + 2^39
  stepwise = crc32c_combine(stepwise, part, length);
  for (; length < (1ULL << 40); length *= 2) {
    stepwise = crc32c_combine(stepwise, part, length);
    part = crc32c_combine(part, part, length);
  }
  EXPECT_EQ(crc32c_combine(head, crc, 1ULL << 40), stepwise);
}

TEST(Crc32c, ChangesWithEverySingleBit) {
  std::string text = random_text(64, 5);
  const std::uint32_t clean = crc32c(view(text));
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(crc32c(view(text)), clean);
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  }
}

}  // namespace
}  // namespace echelon
