#include "data/sentencepiece_traits.h"

#include <bit>
#include <cstdint>

namespace echelon::data {
namespace {

/// One field of a protocol buffer message.
struct Field {
  std::uint64_t number = 0;
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
    const std::uint64_t tag = varint();
    field = Field{.number = tag >> 3};
    switch (tag & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        (void)take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        for (unsigned shift = 0; const char byte : take(4)) {
          field.value |= std::uint64_t{static_cast<unsigned char>(byte)} << shift;
          shift += 8;
        }
        break;
      default:
        ok_ = false;
    }
    return ok_;
  }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
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
    if (field.number == kPieceText) piece.text = field.bytes;
    if (field.number == kPieceScore)
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.number == kPieceType) piece.type = static_cast<SentencepiecePiece::Type>(field.value);
  }
  traits.pieces.push_back(piece);
  return reader.ok();
}

bool read_trainer(std::string_view message, SentencepieceTraits& traits) {
  FieldReader reader(message);
  for (Field field; reader.next(field);) {
    if (field.number == kTrainerModelType) traits.type = static_cast<SentencepieceTraits::Type>(field.value);
    if (field.number == kTrainerByteFallback) traits.byte_fallback = field.value != 0;
    if (field.number == kTrainerWhitespaceAsSuffix) traits.treat_whitespace_as_suffix = field.value != 0;
  }
  return reader.ok();
}

bool read_normalizer(std::string_view message, bool denormalizer, SentencepieceTraits& traits) {
  FieldReader reader(message);
  for (Field field; reader.next(field);) {
    if (field.number == kNormalizerTable && !field.bytes.empty()) traits.rewrites_text = true;
    if (denormalizer) continue;
    if (field.number == kNormalizerTable) traits.normalizer_table = field.bytes;
    if (field.number == kNormalizerDummyPrefix) traits.add_dummy_prefix = field.value != 0;
    if (field.number == kNormalizerRemoveExtra) traits.remove_extra_whitespaces = field.value != 0;
    if (field.number == kNormalizerEscape) traits.escape_whitespaces = field.value != 0;
  }
  return reader.ok();
}

}  // namespace

std::optional<SentencepieceTraits> read_traits(std::string_view model) {
  SentencepieceTraits traits;
  bool ok = true;
  FieldReader reader(model);
  for (Field field; ok && reader.next(field);) {
    if (field.number == kModelPiece) ok = read_piece(field.bytes, traits);
    if (field.number == kModelTrainer) ok = read_trainer(field.bytes, traits);
    if (field.number == kModelNormalizer) ok = read_normalizer(field.bytes, false, traits);
    if (field.number == kModelDenormalizer) ok = read_normalizer(field.bytes, true, traits);
  }
  if (!ok || !reader.ok()) return std::nullopt;
  return traits;
}

}  // namespace echelon::data
