#include "text/sentencepiece/sentencepiece_traits.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/str.h"
#include "text/sentencepiece/normalizer_table.h"

namespace echelon::data {
namespace {

enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// One field of a protocol buffer message.
struct Field {
  std::uint64_t number = 0;
  Wire wire = Wire::kVarint;
  std::uint64_t value = 0;  ///< of a varint or fixed32 field
  std::string_view bytes;   ///< of a length-delimited field
};

/// Walks the fields of one message; knows only the wire format.
class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  /// False at the end and at the first malformed byte; ok() tells which.
  bool next(Field& field) {
    if (rest_.empty() || !ok_) return false;
    const std::size_t before = rest_.size();
    const std::uint64_t tag = varint();
    // The library truncates longer tags in its own way, so they are refused.
    if (before - rest_.size() > kLongestTag || tag > kLargestTag || tag >> 3 == 0) ok_ = false;
    field = Field{.number = tag >> 3, .wire = static_cast<Wire>(tag & 7)};
    switch (field.wire) {
      case Wire::kVarint: field.value = varint(); break;
      case Wire::kFixed64: (void)take(8); break;
      case Wire::kBytes: field.bytes = take(varint()); break;
      case Wire::kFixed32:
        for (unsigned shift = 0; const char byte : take(4)) {
          field.value |= std::uint64_t{static_cast<unsigned char>(byte)} << shift;
          shift += 8;
        }
        break;
      default: ok_ = false;
    }
    return ok_;
  }
  [[nodiscard]] bool ok() const { return ok_; }

  /// Whether the field is the one with this number. In another form than the proto file gives it the library
  /// passes it over, where we might not: such a message is malformed.
  bool is(const Field& field, std::uint64_t number, Wire wire) {
    if (field.number != number) return false;
    if (field.wire != wire) ok_ = false;
    return ok_;
  }

 private:
  static constexpr std::size_t kLongestTag = 5;
  static constexpr std::uint64_t kLargestTag = 0xFFFFFFFF;

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }

  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  bool ok_ = true;
};

// Field numbers of sentencepiece_model.proto.
constexpr std::uint64_t kModelPiece = 1;
constexpr std::uint64_t kModelTrainer = 2;
constexpr std::uint64_t kModelNormalizer = 3;
constexpr std::uint64_t kModelDenormalizer = 5;
constexpr std::uint64_t kPieceText = 1;
constexpr std::uint64_t kPieceScore = 2;
constexpr std::uint64_t kPieceType = 3;
constexpr std::uint64_t kTrainerModelType = 3;
constexpr std::uint64_t kTrainerWhitespaceAsSuffix = 24;
constexpr std::uint64_t kTrainerByteFallback = 35;
constexpr std::uint64_t kNormalizerTable = 2;
constexpr std::uint64_t kNormalizerDummyPrefix = 3;
constexpr std::uint64_t kNormalizerRemoveExtra = 4;
constexpr std::uint64_t kNormalizerEscape = 5;

bool read_piece(std::string_view message, SentencepieceTraits& traits) {
  SentencepiecePiece piece;
  FieldReader reader(message);
  for (Field field; reader.next(field);) {
    if (reader.is(field, kPieceText, Wire::kBytes)) piece.text = field.bytes;
    if (reader.is(field, kPieceScore, Wire::kFixed32))
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (reader.is(field, kPieceType, Wire::kVarint))
      piece.type = static_cast<SentencepiecePiece::Type>(field.value);
  }
  traits.pieces.push_back(piece);
  return reader.ok();
}

bool read_trainer(std::string_view message, SentencepieceTraits& traits) {
  FieldReader reader(message);
  for (Field field; reader.next(field);) {
    if (reader.is(field, kTrainerModelType, Wire::kVarint))
      traits.type = static_cast<SentencepieceTraits::Type>(field.value);
    if (reader.is(field, kTrainerByteFallback, Wire::kVarint)) traits.byte_fallback = field.value != 0;
    if (reader.is(field, kTrainerWhitespaceAsSuffix, Wire::kVarint))
      traits.treat_whitespace_as_suffix = field.value != 0;
  }
  return reader.ok();
}

bool read_normalizer(std::string_view message, bool denormalizer, SentencepieceTraits& traits) {
  FieldReader reader(message);
  for (Field field; reader.next(field);) {
    if (reader.is(field, kNormalizerTable, Wire::kBytes))
      (denormalizer ? traits.denormalizer_table : traits.normalizer_table) = field.bytes;
    if (denormalizer) continue;
    if (reader.is(field, kNormalizerDummyPrefix, Wire::kVarint)) traits.add_dummy_prefix = field.value != 0;
    if (reader.is(field, kNormalizerRemoveExtra, Wire::kVarint))
      traits.remove_extra_whitespaces = field.value != 0;
    if (reader.is(field, kNormalizerEscape, Wire::kVarint)) traits.escape_whitespaces = field.value != 0;
  }
  return reader.ok();
}

/// Symbols of the user's that all begin one text, of which the library has room for kMostNested.
constexpr std::size_t kMostNested = 64;

bool symbols_nest_too_deep(const SentencepieceTraits& traits) {
  std::vector<std::string_view> symbols;
  for (const SentencepiecePiece& piece : traits.pieces) {
    if (piece.type == SentencepiecePiece::Type::kUserDefined) symbols.push_back(piece.text);
  }
  std::ranges::sort(symbols);
  std::vector<std::string_view> around;  // those that the last one begins with, itself included
  for (const std::string_view symbol : symbols) {
    while (!around.empty() && !symbol.starts_with(around.back())) around.pop_back();
    around.push_back(symbol);
    if (around.size() > kMostNested) return true;
  }
  return false;
}

}  // namespace

std::string unsafe_model_problem(const SentencepieceTraits& traits) {
  for (const auto& [name, table] : {std::pair{"normalizer", traits.normalizer_table},
                                    std::pair{"denormalizer", traits.denormalizer_table}}) {
    if (table.empty()) continue;
    if (const std::string problem = normalizer_table_problem(table); !problem.empty())
      return str("the table of its ", name, " is damaged: ", problem);
  }
  if (symbols_nest_too_deep(traits))
    return str("more than ", kMostNested, " of its user-defined symbols begin one another");
  return "";
}

std::optional<SentencepieceTraits> read_traits(std::string_view model) {
  SentencepieceTraits traits;
  bool ok = true;
  FieldReader reader(model);
  for (Field field; ok && reader.next(field);) {
    if (reader.is(field, kModelPiece, Wire::kBytes)) ok = read_piece(field.bytes, traits);
    if (reader.is(field, kModelTrainer, Wire::kBytes)) ok = read_trainer(field.bytes, traits);
    if (reader.is(field, kModelNormalizer, Wire::kBytes)) ok = read_normalizer(field.bytes, false, traits);
    if (reader.is(field, kModelDenormalizer, Wire::kBytes)) ok = read_normalizer(field.bytes, true, traits);
  }
  if (!ok || !reader.ok()) return std::nullopt;
  return traits;
}

}  // namespace echelon::data
