#pragma once
#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "text/sentencepiece/sentencepiece_traits.h"

namespace echelon::testing {

/// The unit at `at` of a table of rules (normalizer_table.h).
inline std::uint32_t unit_bits(const std::string& table, std::uint32_t at) {
  std::uint32_t bits = 0;
  for (std::size_t i = 4; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(table[4 + 4 * at + i]);
  return bits;
}

inline void set_unit(std::string& table, std::uint32_t at, std::uint32_t bits) {
  for (std::size_t i = 0; i < 4; ++i) table[4 + 4 * at + i] = static_cast<char>(bits >> 8 * i);
}

/// Where the path of these bytes ends.
inline std::uint32_t unit_of(const std::string& table, std::string_view path) {
  std::uint32_t at = 0;
  for (const char c : path) at = at ^ unit_bits(table, at) >> 10 ^ static_cast<unsigned char>(c);
  return at;
}

/// A table of rules whose nodes have 256 units each: their children, by byte. The value of a node lies at the
/// byte 0 of its children.
inline std::string normalizer_table(const std::map<std::string, std::string>& rules) {
  std::map<std::string, std::uint32_t> block{{"", 1}};  // of a path's children
  for (const auto& [from, to] : rules) {
    for (std::size_t i = 1; i <= from.size(); ++i)
      block.try_emplace(from.substr(0, i), static_cast<std::uint32_t>(block.size() + 1));
  }
  const auto units = static_cast<std::uint32_t>((block.size() + 1) * 256);
  std::string table(4 + 4 * std::size_t{units}, '\0');
  std::string texts;
  for (std::uint32_t at = 0; at < units; ++at) set_unit(table, at, at % 256 == 1 ? 2 : 1);  // fits no byte
  set_unit(table, 0, 256U << 10);
  for (const auto& [path, children] : block) {
    if (path.empty()) continue;
    const auto byte = static_cast<unsigned char>(path.back());
    const std::uint32_t at = block[path.substr(0, path.size() - 1)] * 256 + byte;
    const auto rule = rules.find(path);
    const std::uint32_t value = rule == rules.end() ? 0 : 1U << 8;
    set_unit(table, at, (at ^ children * 256) << 10 | value | byte);
    if (value == 0) continue;
    set_unit(table, children * 256, 0x80000000U | static_cast<std::uint32_t>(texts.size()));
    texts += rule->second + '\0';
  }
  for (std::size_t i = 0; i < 4; ++i) table[i] = static_cast<char>(4 * units >> 8 * i);
  return table + texts;
}

/// The bytes of a sentencepiece model.
class SentencepieceModel {
 public:
  using Type = data::SentencepiecePiece::Type;

  SentencepieceModel& piece(std::string_view text, float score, Type type = Type::kNormal) {
    std::string message = bytes_field(1, text);
    message += "\x15";  // score: field 2, fixed32
    for (unsigned i = 0; i < 4; ++i)
      message += static_cast<char>(std::bit_cast<std::uint32_t>(score) >> 8 * i);
    pieces_ += bytes_field(1, message + number_field(3, static_cast<std::uint64_t>(type)));
    return *this;
  }
  SentencepieceModel& trainer(unsigned field, std::uint64_t value) {
    trainer_ += number_field(field, value);
    return *this;
  }
  SentencepieceModel& normalizer(unsigned field, std::uint64_t value) {
    normalizer_ += number_field(field, value);
    return *this;
  }
  SentencepieceModel& rules(const std::map<std::string, std::string>& rules) {
    return table(normalizer_table(rules));
  }
  SentencepieceModel& table(std::string_view table) {
    normalizer_ += bytes_field(2, table);
    return *this;
  }
  SentencepieceModel& denormalizer_table(std::string_view table) {
    denormalizer_ += bytes_field(5, bytes_field(2, table));
    return *this;
  }
  [[nodiscard]] std::string bytes() const {
    return pieces_ + bytes_field(2, trainer_) + bytes_field(3, normalizer_) + denormalizer_;
  }

 private:
  static std::string varint(std::uint64_t value) {
    std::string bytes;
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80U);
    return bytes + static_cast<char>(value);
  }
  static std::string number_field(unsigned field, std::uint64_t value) {
    return varint(std::uint64_t{field} << 3) + varint(value);
  }
  static std::string bytes_field(unsigned field, std::string_view bytes) {
    return varint(std::uint64_t{field} << 3 | 2) + varint(bytes.size()) + std::string(bytes);
  }

  std::string pieces_;
  std::string trainer_;
  std::string normalizer_;
  std::string denormalizer_;
};

}  // namespace echelon::testing
