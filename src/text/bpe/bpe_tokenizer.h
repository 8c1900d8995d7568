#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/bpe/added_token_finder.h"
#include "text/bpe/byte_pairs.h"
#include "text/bpe/tokenizer_json.h"
#include "text/tokenizer.h"
#include "text/unigram/unigram_pieces.h"

namespace echelon::data {

/// A tokenizer.json of Hugging Face's `tokenizers`, BPE of bytes or of characters or unigram pieces; gives
/// the ids that package gives.
///
/// A text goes through these stages: added tokens are cut out; the rest is normalized; added tokens that are
/// looked for in normalized text are cut out; the rest is split into words by the pre-tokenizers; each word's
/// bytes or characters are merged, or it is cut into pieces.
class BpeTokenizer final : public Tokenizer {
 public:
  /// Throws Error(kData): see TokenizerJson::parse, SplitPattern and BytePairs.
  BpeTokenizer(std::string_view json, std::string_view name);

  [[nodiscard]] std::unique_ptr<TextEncoder> make_encoder() const override;
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const override;
  [[nodiscard]] std::string name_of(std::int32_t id) const override;
  [[nodiscard]] std::string piece_of(std::int32_t id) const override;

 private:
  friend class BpeEncoder;
  BpeTokenizer(const TokenizerJson& json, std::string_view name, std::uint64_t digest);

  AddedTokenFinder raw_tokens_;
  AddedTokenFinder normalized_tokens_;
  TokenizerSteps steps_;   ///< with the split of ByteLevel or Metaspace itself
  std::size_t prefix_at_;  ///< the split in front of which ByteLevel or Metaspace begins
  std::variant<BytePairs, UnigramPieces> pieces_;
  std::map<std::int32_t, std::string> names_;  ///< of added tokens
  std::vector<std::string> texts_;             ///< of each id, for decoding; empty: none
};

}  // namespace echelon::data
