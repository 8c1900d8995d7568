#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace echelon::data {

/// A sentencepiece model.
class SentencepieceTokenizer final : public Tokenizer {
 public:
  /// Throws Error(kData): not a sentencepiece model.
  SentencepieceTokenizer(std::string_view model_bytes, std::string_view name);
  ~SentencepieceTokenizer() override;

  [[nodiscard]] std::unique_ptr<TextEncoder> make_encoder() const override;
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const override;
  [[nodiscard]] std::string name_of(std::int32_t id) const override;

  /// Appends the ids of `text` as the library finds them, without a memory.
  void append(std::string_view text, std::vector<std::int32_t>& ids) const;

  /// Returns whether the ids of the text are those of its words, one after the other. False if the model
  /// changes text, or if the text holds U+2581 and the model is not our own: there U+2581 is a space.
  [[nodiscard]] bool cuts(std::string_view text) const;

  /// Returns the end of the word that starts at `begin` < text.size(); cuts(text) must be true. Words are the
  /// smallest parts that can be encoded apart.
  [[nodiscard]] std::size_t word_end(std::string_view text, std::size_t begin) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echelon::data
