#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace echelon {

/// A sentencepiece model. Text is UTF-8; ids lie in [0, vocab_size). Every method may run on several threads
/// at once.
class Tokenizer {
 public:
  /// Throws Error(kData): missing, unreadable or empty file, or not a sentencepiece model.
  [[nodiscard]] static Tokenizer load(const std::filesystem::path& path);

  /// From the bytes of a model file; `name` is for messages.
  Tokenizer(std::string_view model_bytes, std::string_view name);
  Tokenizer(Tokenizer&& other) noexcept;
  Tokenizer& operator=(Tokenizer&& other) noexcept;
  ~Tokenizer();

  /// Ids of `text`, without BOS or EOS. With a model made by `echelon prepare`, decode(encode(text)) == text
  /// for every valid UTF-8 text; an invalid byte becomes U+FFFD.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// Text of `ids`; BOS and EOS give nothing. Throws Error(kData) for an id outside of the vocabulary.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const;

  [[nodiscard]] std::int64_t vocab_size() const;
  [[nodiscard]] std::int32_t bos_id() const;  ///< -1: the model has none
  [[nodiscard]] std::int32_t eos_id() const;  ///< -1: the model has none
  [[nodiscard]] std::uint64_t digest() const;

  /// End of the word that starts at `begin` < text.size(). Words are the smallest parts that can be encoded
  /// apart: the ids of a text are those of its words, one after the other. For a model that gives no such
  /// promise the only word is the text.
  [[nodiscard]] std::size_t word_end(std::string_view text, std::size_t begin) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Encodes like its tokenizer, many times faster on text whose words repeat: remembers the ids of short
/// words. Falls back to the tokenizer where words cannot be encoded apart. One per thread; `tokenizer` must
/// outlive it.
class CachingEncoder {
 public:
  explicit CachingEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// Appends the ids of `text` to `ids`.
  void encode(std::string_view text, std::vector<std::int32_t>& ids);

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
  };
  const Tokenizer& tokenizer_;
  std::unordered_map<std::string, Span, Hash, std::equal_to<>> words_;
  std::vector<std::int32_t> word_ids_;  // of all words, where their Span says
};

}  // namespace echelon
