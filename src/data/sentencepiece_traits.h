#pragma once
#include <optional>
#include <string_view>

namespace echelon::data {

/// What a sentencepiece model does to text before it looks up pieces. The library does not tell, so it is
/// read from the model's own bytes (a protocol buffer, sentencepiece_model.proto).
struct SentencepieceTraits {
  bool bpe = false;                      ///< trainer_spec.model_type (default: unigram)
  bool rewrites_text = false;            ///< a normaliser or denormaliser table is present
  bool add_dummy_prefix = true;          ///< a space is put in front
  bool remove_extra_whitespaces = true;  ///< runs of spaces shrink
  bool escape_whitespaces = true;        ///< space becomes U+2581
  bool treat_whitespace_as_suffix = false;

  /// Text goes in as it is, and each part of it is encoded by its own characters only.
  [[nodiscard]] bool verbatim_bpe() const {
    return bpe && !rewrites_text && !add_dummy_prefix && !remove_extra_whitespaces && escape_whitespaces &&
           !treat_whitespace_as_suffix;
  }
};

/// Empty when `model` is no well-formed protocol buffer.
[[nodiscard]] std::optional<SentencepieceTraits> read_traits(std::string_view model);

}  // namespace echelon::data
