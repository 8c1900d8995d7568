#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

/// Arithmetic of reflected CRCs: the polynomials modulo kPolynomial, the highest bit of a Word being x^0.
/// After "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Gopal et al., Intel,
/// 2009) and zlib's crc32_combine.
namespace echelon {

template <class Word, Word kPolynomial>
struct CrcField {
  static constexpr Word kOne = Word{1} << (8 * sizeof(Word) - 1);

  static constexpr Word times_x(Word a) { return (a >> 1) ^ ((a & 1U) != 0 ? kPolynomial : Word{0}); }

  static constexpr Word multiply(Word a, Word b) {
    Word product = 0;
    for (Word bit = kOne; bit != 0; bit >>= 1) {
      if ((a & bit) != 0) product ^= b;
      b = times_x(b);
    }
    return product;
  }

  /// x^(2^n) for every n: a power needs one product for each of its bits.
  static constexpr std::array<Word, 64> make_squares() {
    std::array<Word, 64> squares{};
    squares[0] = kOne >> 1;
    for (std::size_t n = 1; n < squares.size(); ++n) squares[n] = multiply(squares[n - 1], squares[n - 1]);
    return squares;
  }

  static constexpr Word x_to_the(std::uint64_t power) {
    constexpr std::array<Word, 64> kSquares = make_squares();
    Word result = kOne;
    for (std::size_t n = 0; n < kSquares.size(); ++n) {
      if ((power >> n & 1U) != 0) result = multiply(result, kSquares[n]);
    }
    return result;
  }

  /// Multiplying a register by it appends that many zero bytes, below 2^61.
  static constexpr Word zeros(std::uint64_t bytes) { return x_to_the(8 * bytes); }

  /// The factor that moves a 64-bit half of a 128-bit register by `power` bits in a carry-less product. Its
  /// exponent is one less, because the product of two reflected words comes out shifted by one.
  static constexpr std::uint64_t fold_constant(std::uint64_t power) {
    return std::uint64_t{x_to_the(power - 1)} << (64 - 8 * sizeof(Word));
  }
};

/// A CRC by table lookup. Registers are raw: without the inversion at both ends.
template <class Field>
class CrcTables {
  using Word = std::remove_const_t<decltype(Field::kOne)>;
  using Tables = std::array<std::array<Word, 256>, 8>;

 public:
  static Word advance(Word crc, const std::byte* at, std::size_t size) {
    for (; size >= 8; size -= 8, at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, 8);
      word ^= crc;
      crc = 0;
      for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xFFU];
    }
    for (; size != 0; --size, ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<Word>(*at)) & 0xFFU];
    return crc;
  }

 private:
  static constexpr Tables make() {
    Tables tables{};
    for (std::size_t byte = 0; byte < 256; ++byte) {
      tables[0][byte] = static_cast<Word>(byte);
      for (int bit = 0; bit < 8; ++bit) tables[0][byte] = Field::times_x(tables[0][byte]);
    }
    for (std::size_t k = 1; k < 8; ++k) {
      for (std::size_t byte = 0; byte < 256; ++byte) {
        const Word before = tables[k - 1][byte];
        tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFFU];
      }
    }
    return tables;
  }
  /// [k][b]: the register after byte b and k zero bytes; eight look-ups advance it by eight bytes ("slicing
  /// by 8", Kounavis and Berry, Intel, 2005).
  static constexpr Tables kTables = make();
};

using Crc32cField = CrcField<std::uint32_t, 0x82F63B78U>;
using Crc64Field = CrcField<std::uint64_t, 0x9A6C9329AC4BC9B5U>;

}  // namespace echelon
