#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/bpe/split_pattern.h"
#include "text/sentencepiece/normalizer_table.h"

namespace echelon::data {

/// An entry of added_tokens: text that becomes one id wherever it stands, before anything else is done.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  ///< only where no letter, digit or '_' touches it
  bool lstrip = false;       ///< takes the white space in front with it
  bool rstrip = false;       ///< takes the white space behind with it
  bool normalized = false;   ///< looked for in the normalized text
  bool special = false;      ///< decoding leaves it out
};

enum class Normalization {
  kNfc,
  kNfd,
  kNfkc,
  kNfkd,
  kNmt,
  kLowercase,
  kStrip,
  kStripAccents,
  kPrepend,
  kReplace,
  kPrecompiled
};

struct NormalizerStep {
  Normalization kind = Normalization::kNfc;
  std::string pattern{};                ///< kReplace: the text to replace,
  std::optional<SplitPattern> regex{};  ///< or what matches this
  std::string content{};                ///< kReplace: what comes in its place; kPrepend: what comes in front
  bool left = false;                    ///< kStrip: white space at the start
  bool right = false;                   ///< kStrip: white space at the end
  std::shared_ptr<const NormalizerTable> table{};  ///< kPrecompiled
};

/// The treatment of the matches of a pattern that splits text; the names are those of tokenizer.json.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// A pre-tokenizer that splits text by a pattern.
struct SplitStep {
  SplitPattern pattern;
  bool invert = false;
  SplitBehavior behavior = SplitBehavior::kIsolated;
};

/// The pre-tokenizer ByteLevel, always the last one. With it bytes merge, without it characters.
struct ByteLevelStep {
  bool add_prefix_space = true;
  bool use_regex = true;
};

enum class PrependScheme { kAlways, kFirst, kNever };

/// The pre-tokenizer Metaspace, always the last one: spaces become `sign`, and one stands in front.
struct MetaspaceStep {
  std::string sign;
  PrependScheme prepend = PrependScheme::kAlways;  ///< kFirst: only where the whole text begins
  bool split = true;                               ///< a word begins at each sign
};

/// The change that a step of the decoder makes to each token; kByteFallback joins "<0x0A>"s to the text of
/// their bytes, and kFuse joins all tokens to one.
enum class Decoding { kReplace, kByteFallback, kFuse, kStrip, kMetaspace };

struct DecoderStep {
  Decoding kind = Decoding::kFuse;
  std::string pattern{};    ///< kReplace: the text to replace; kStrip: a character; kMetaspace: the sign
  std::string content{};    ///< kReplace
  int start = 0;            ///< kStrip: at most so many of them in front,
  int stop = 0;             ///< and so many at the end
  bool drops_first = true;  ///< kMetaspace: a sign in the first token gives nothing, not a space
};

using Vocabulary = std::unordered_map<std::string, std::int32_t>;

/// The ids of "<0x00>" to "<0xFF>"; -1: not in the vocabulary.
[[nodiscard]] std::array<std::int32_t, 256> ids_of_bytes(const Vocabulary& vocab);

/// model of type BPE.
struct BytePairModel {
  std::vector<std::pair<std::string, std::string>> merges;  ///< by rank
  std::string unk_token;                                    ///< empty: none
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

/// model of type Unigram.
struct UnigramModel {
  std::vector<double> scores;  ///< by id
  std::int32_t unk_id = 0;
  bool byte_fallback = false;
};

/// The ways of a text to the words that the model splits, and back.
struct TokenizerSteps {
  std::vector<NormalizerStep> normalizers;
  std::vector<SplitStep> splits;
  std::optional<ByteLevelStep> byte_level;
  std::optional<MetaspaceStep> metaspace;
  std::vector<DecoderStep> decoders;  ///< none with byte_level
};

/// The content of a tokenizer.json, with every field known and checked. truncation, padding and offsets are
/// left out: they do not change the ids of a whole document.
struct TokenizerJson {
  std::vector<AddedToken> added_tokens;
  TokenizerSteps steps;
  Vocabulary vocab;
  std::variant<BytePairModel, UnigramModel> model;
  std::int32_t bos_id = -1;  ///< of the post-processor, else the added token with a usual name; -1: none
  std::int32_t eos_id = -1;

  /// Throws Error(kData) naming the field: not JSON, larger than 64 MiB, a missing, unknown or contradicting
  /// value, something that docs/data.md does not list. `name`: the file, for messages.
  [[nodiscard]] static TokenizerJson parse(std::string_view bytes, std::string_view name);
};

}  // namespace echelon::data
