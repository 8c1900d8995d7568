#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::data {

/// U+2581, sentencepiece's sign for a space.
inline constexpr std::string_view kSpaceSign = "\xE2\x96\x81";

/// An entry of a sentencepiece model's vocabulary; its id is its place.
struct SentencepiecePiece {
  enum class Type : std::uint8_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  std::string_view text;
  float score = 0;
  Type type = Type::kNormal;
};

/// The changes that a sentencepiece model makes to text before it looks up pieces. The library has no
/// function for them, so they are read from the model's own bytes (a protocol buffer,
/// sentencepiece_model.proto). Views are into these bytes.
struct SentencepieceTraits {
  enum class Type : std::uint8_t { kUnigram = 1, kBpe, kWord, kChar };
  Type type = Type::kUnigram;            ///< trainer_spec.model_type
  bool byte_fallback = false;            ///< unknown characters become bytes
  std::string_view normalizer_table;     ///< see normalizer_table.h; empty: none
  std::string_view denormalizer_table;   ///< the same for decoded text
  bool add_dummy_prefix = true;          ///< a space is put in front
  bool remove_extra_whitespaces = true;  ///< runs of spaces shrink
  bool escape_whitespaces = true;        ///< space becomes U+2581
  bool treat_whitespace_as_suffix = false;
  std::vector<SentencepiecePiece> pieces;

  /// Text goes in as it is, and each part of it is encoded by its own characters only.
  [[nodiscard]] bool verbatim_bpe() const {
    return type == Type::kBpe && normalizer_table.empty() && denormalizer_table.empty() &&
           !add_dummy_prefix && !remove_extra_whitespaces && escape_whitespaces &&
           !treat_whitespace_as_suffix;
  }
};

/// Empty when `model` is no well-formed protocol buffer, or one that two readers may understand differently.
[[nodiscard]] std::optional<SentencepieceTraits> read_traits(std::string_view model);

/// Returns why the library must not load the model, or "": it would follow a table out of its memory, or find
/// more symbols than it has room for. Call it before the library loads the model.
[[nodiscard]] std::string unsafe_model_problem(const SentencepieceTraits& traits);

}  // namespace echelon::data
