#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_span.h"

namespace echelon {

/// Turns text into ids, with a cache of words. One per thread; its Tokenizer must outlive it.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  /// Appends the ids of `text`, without BOS or EOS, to `ids`. Bytes that are not UTF-8 count as U+FFFD.
  /// Throws Error(kData) when a regular expression of the tokenizer needs too much work or memory for it.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) = 0;

  /// As encode(), but no special token is made of text that touches `typed` (parts of `text`, in order). A
  /// tokenizer that finds special tokens in no text does the same in both.
  virtual void encode_typed(std::string_view text, std::span<const TextSpan> /*typed*/,
                            std::vector<std::int32_t>& ids) {
    encode(text, ids);
  }
};

/// A tokenizer: a sentencepiece model, or a tokenizer.json of Hugging Face (BPE). Text is UTF-8;
/// ids lie in [0, vocab_size). Every method may run on several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Throws Error(kData): missing, unreadable or empty file, neither of the two formats, or a tokenizer.json
  /// that asks for something else than docs/data.md lists.
  [[nodiscard]] static std::unique_ptr<const Tokenizer> load(const std::filesystem::path& path);

  /// Loads a tokenizer from the bytes of a file; `name` is for messages. Bytes that begin with '{' are a
  /// tokenizer.json.
  [[nodiscard]] static std::unique_ptr<const Tokenizer> from_bytes(std::string_view model_bytes,
                                                                   std::string_view name);

  [[nodiscard]] virtual std::unique_ptr<TextEncoder> make_encoder() const = 0;

  /// Returns the ids that a fresh encoder gives.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// Text of `ids`; BOS, EOS and other special symbols give nothing. With a model made by `echelon prepare`,
  /// decode(encode(text)) == text for every valid UTF-8 text. Throws Error(kData) for an id outside of the
  /// vocabulary.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// decode() for the ids of a model, whose vocabulary may be larger: an id that the tokenizer does not have
  /// becomes U+FFFD.
  [[nodiscard]] std::string decode_any(std::span<const std::int32_t> ids) const;

  /// Returns the spelling of a special symbol in the tokenizer's file; empty for an id that the file does not
  /// have.
  [[nodiscard]] virtual std::string name_of(std::int32_t id) const = 0;

  /// The bytes of text that an id stands for: those of a part of a character too, and the name of a special
  /// symbol.
  [[nodiscard]] virtual std::string piece_of(std::int32_t id) const;

  /// A symbol that decode() leaves out.
  [[nodiscard]] bool is_special(std::int32_t id) const;

  [[nodiscard]] std::int64_t vocab_size() const { return facts_.vocab_size; }  ///< largest id plus 1
  /// In front of a document; -1: none.
  [[nodiscard]] std::int32_t bos_id() const { return facts_.bos_id; }
  /// Behind a document; -1: none.
  [[nodiscard]] std::int32_t eos_id() const { return facts_.eos_id; }
  [[nodiscard]] std::uint64_t digest() const { return facts_.digest; }  ///< tokenizer_digest_of its file

 protected:
  struct Facts {
    std::int64_t vocab_size = 0;
    std::int32_t bos_id = -1;
    std::int32_t eos_id = -1;
    std::uint64_t digest = 0;
  };
  /// Every constructor calls it, once.
  void set_facts(const Facts& facts) { facts_ = facts; }

 private:
  Facts facts_;
};

}  // namespace echelon
