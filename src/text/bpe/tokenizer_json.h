#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace echelon::data {

/// An entry of added_tokens: text that becomes one id wherever it stands, before anything else is done.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  ///< only where no letter, digit or '_' touches it
  bool lstrip = false;       ///< takes the white space in front with it
  bool rstrip = false;       ///< takes the white space behind with it
  bool normalized = false;   ///< looked for in the normalised text
  bool special = false;      ///< decoding leaves it out
};

enum class Normalization { kNfc, kNfd, kNfkc, kNfkd, kLowercase };

/// What becomes of the matches of a pattern that splits text; the names are those of tokenizer.json.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// A pre-tokenizer Split or Digits.
struct SplitStep {
  std::string field;  ///< where it stands, for messages
  std::string pattern;
  bool literal = false;
  bool invert = false;
  SplitBehavior behavior = SplitBehavior::kIsolated;
};

/// The pre-tokenizer ByteLevel, always the last.
struct ByteLevelStep {
  bool add_prefix_space = true;
  bool use_regex = true;
};

/// model of type BPE.
struct BytePairModel {
  std::unordered_map<std::string, std::int32_t> vocab;
  std::vector<std::pair<std::string, std::string>> merges;  ///< by rank
  std::string unk_token;                                    ///< empty: none
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

/// What a tokenizer.json asks for, with every field known and checked. truncation, padding and offsets are
/// left out: they do not change the ids of a whole document.
struct TokenizerJson {
  std::vector<AddedToken> added_tokens;
  std::vector<Normalization> normalizers;
  std::vector<SplitStep> splits;
  ByteLevelStep byte_level;
  BytePairModel model;
  std::int32_t bos_id = -1;  ///< of the post-processor, else the added token with a usual name; -1: none
  std::int32_t eos_id = -1;

  /// Throws Error(kData) naming the field: not JSON, larger than 64 MiB, a missing, unknown or contradicting
  /// value, something that docs/data.md does not list. `name`: the file, for messages.
  [[nodiscard]] static TokenizerJson parse(std::string_view bytes, std::string_view name);
};

}  // namespace echelon::data
