#include "text/bpe/bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe/token_decoder.h"
#include "text/bpe/word_cache.h"
#include "text/sentencepiece/text_normalizer.h"
#include "text/text_pieces.h"
#include "text/tokenizer_digest.h"
#include "text/utf8.h"

namespace echelon::data {
namespace {

// The regular expression of ByteLevel with use_regex, as in GPT-2's encoder.py.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::vector<AddedToken> added_tokens(const TokenizerJson& json, bool normalized) {
  const TextNormalizer normalizer(json.steps.normalizers);
  std::vector<AddedToken> chosen;
  for (AddedToken token : json.added_tokens) {
    if (token.normalized != normalized) continue;
    if (normalized) token.content = normalizer.normalize(token.content);
    if (!token.content.empty()) chosen.push_back(std::move(token));
  }
  return chosen;
}

std::vector<std::string> texts_by_id(const TokenizerJson& json) {
  std::vector<std::string> all;
  const auto set = [&](std::int32_t id, std::string text) {
    if (static_cast<std::size_t>(id) >= all.size()) all.resize(static_cast<std::size_t>(id) + 1);
    all[static_cast<std::size_t>(id)] = std::move(text);
  };
  const auto shown = [&](const std::string& token) {
    return json.steps.byte_level ? bytes_of(token).value_or(token) : token;
  };
  for (const auto& [token, id] : json.vocab) set(id, shown(token));
  for (const AddedToken& token : json.added_tokens) {
    set(token.id, token.special ? std::string() : shown(token.content));
  }
  return all;
}

std::variant<BytePairs, UnigramPieces> pieces_of(const TokenizerJson& json, std::string_view name) {
  if (const auto* model = std::get_if<UnigramModel>(&json.model)) return UnigramPieces(json.vocab, *model);
  const auto letters = json.steps.byte_level ? BytePairs::Letters::kBytes : BytePairs::Letters::kCharacters;
  return BytePairs(json.vocab, std::get<BytePairModel>(json.model), letters, name);
}

/// Where what touches `part`, which begins at `begin`, of `spans` lies in the text that `change` makes of it.
template <class Change>
std::vector<TextSpan> moved(std::string_view part, std::span<const TextSpan> spans, std::size_t begin,
                            Change&& change) {
  const auto place_of = [&](std::size_t place) {
    return change(part.substr(0, std::max(place, begin) - begin)).size();
  };
  std::vector<TextSpan> all;
  for (const TextSpan& span : spans) {
    if (span.end > begin && span.begin < begin + part.size())
      all.push_back({place_of(span.begin), place_of(span.end)});
  }
  return all;
}

std::string with_signs(std::string_view text, const MetaspaceStep& step, bool is_first) {
  std::string out = replace_all(text, " ", step.sign);
  const bool prepends =
      step.prepend == PrependScheme::kAlways || (step.prepend == PrependScheme::kFirst && is_first);
  if (prepends && !out.starts_with(step.sign)) out.insert(0, step.sign);
  return out;
}

}  // namespace

class BpeEncoder final : public TextEncoder {
 public:
  explicit BpeEncoder(const BpeTokenizer& tokenizer)
      : tokenizer_(tokenizer), normalizer_(tokenizer.steps_.normalizers) {
    for (const auto& split : tokenizer.steps_.splits) matchers_.emplace_back(split.pattern);
  }

  void encode(std::string_view text, std::vector<std::int32_t>& ids) override { encode_typed(text, {}, ids); }

  void encode_typed(std::string_view text, std::span<const TextSpan> typed,
                    std::vector<std::int32_t>& ids) override {
    ids_ = &ids;
    if (find_invalid_utf8(text) == std::string_view::npos) return encode_valid(text, typed);
    encode_valid(replace_invalid_utf8(text), moved(text, typed, 0, replace_invalid_utf8));
  }

 private:
  void encode_valid(std::string_view text, std::span<const TextSpan> typed) {
    const auto on_token = [this](std::int32_t id) { ids_->push_back(id); };
    const auto normalize = [this](std::string_view part) { return normalizer_.normalize(part); };
    const auto on_text = [&](std::string_view part) {
      const bool is_first = part.data() == text.data();
      const auto begin = static_cast<std::size_t>(part.data() - text.data());
      const bool looks = !tokenizer_.normalized_tokens_.empty();
      const auto typed_here = looks ? moved(part, typed, begin, normalize) : std::vector<TextSpan>();
      std::string normal;
      if (!tokenizer_.steps_.normalizers.empty()) part = normal = normalize(part);
      const auto on_normal_text = [&](std::string_view words) {
        begin_ = is_first ? part.data() : nullptr;
        split(words, 0);
      };
      tokenizer_.normalized_tokens_.split(part, typed_here, on_normal_text, on_token);
    };
    tokenizer_.raw_tokens_.split(text, typed, on_text, on_token);
  }

  /// Sends `text` through the splits from number `step` on.
  void split(std::string_view text, std::size_t step) {
    if (step != tokenizer_.prefix_at_) return split_by(text, step);
    const TokenizerSteps& steps = tokenizer_.steps_;
    if (steps.metaspace) return split_by(with_signs(text, *steps.metaspace, text.data() == begin_), step);
    if (steps.byte_level && steps.byte_level->add_prefix_space && !text.starts_with(' '))
      return split_by(str(" ", text), step);
    split_by(text, step);
  }

  void split_by(std::string_view text, std::size_t step) {
    if (step == tokenizer_.steps_.splits.size()) return add_word(text);
    const auto& rule = tokenizer_.steps_.splits[step];
    for_each_piece(text, matchers_[step], rule.behavior, rule.invert,
                   [&](std::string_view piece) { split(piece, step + 1); });
  }

  void add_word(std::string_view word) {
    words_.append(word, *ids_, [&] {
      if (const auto* pairs = std::get_if<BytePairs>(&tokenizer_.pieces_)) {
        add_merged(*pairs, word);
      } else {
        std::get<UnigramPieces>(tokenizer_.pieces_).encode(word, search_, *ids_);
      }
    });
  }

  void add_merged(const BytePairs& pairs, std::string_view word) {
    if (const std::int32_t id = pairs.whole_word(word); id >= 0) {
      ids_->push_back(id);
    } else if (word.size() <= WordCache::kLongestWord) {
      pairs.encode(word, scratch_, *ids_);
    } else {
      add_parts(pairs, word);
    }
  }

  /// Without a regular expression a word is the whole text, which does not repeat; but its parts do.
  void add_parts(const BytePairs& pairs, std::string_view word) {
    for (std::size_t begin = 0; begin < word.size();) {
      const std::size_t end = pairs.part_end(word, begin);
      const std::string_view part = word.substr(begin, end - begin);
      begin = end;
      parts_.append(part, *ids_, [&] { pairs.encode(part, scratch_, *ids_); });
    }
  }

  const BpeTokenizer& tokenizer_;
  std::vector<SplitPattern::Matcher> matchers_;
  TextNormalizer normalizer_;
  BytePairs::Scratch scratch_;
  UnigramPieces::Scratch search_;
  WordCache words_;
  WordCache parts_;  // separate caches: a whole word may have an id that the same text as a part does not
  std::vector<std::int32_t>* ids_ = nullptr;
  const char* begin_ = nullptr;  // where the text begins that is being split, if it is the whole text's start
};

BpeTokenizer::BpeTokenizer(std::string_view json, std::string_view name)
    : BpeTokenizer(TokenizerJson::parse(json, name), name, tokenizer_digest_of(json)) {}

BpeTokenizer::BpeTokenizer(const TokenizerJson& json, std::string_view name, std::uint64_t digest)
    : raw_tokens_(added_tokens(json, false)),
      normalized_tokens_(added_tokens(json, true)),
      steps_(json.steps),
      prefix_at_(json.steps.splits.size()),
      pieces_(pieces_of(json, name)),
      texts_(texts_by_id(json)) {
  set_facts(
      {.vocab_size = std::ssize(texts_), .bos_id = json.bos_id, .eos_id = json.eos_id, .digest = digest});
  for (const AddedToken& token : json.added_tokens) names_.emplace(token.id, token.content);
  if (steps_.byte_level && steps_.byte_level->use_regex) {
    steps_.splits.push_back({SplitPattern(kByteLevelPattern, "ByteLevel"), false, SplitBehavior::kIsolated});
  }
  if (steps_.metaspace && steps_.metaspace->split) {
    steps_.splits.push_back(
        {SplitPattern::literal(steps_.metaspace->sign, "Metaspace"), false, SplitBehavior::kMergedWithNext});
  }
}

std::unique_ptr<TextEncoder> BpeTokenizer::make_encoder() const {
  return std::make_unique<BpeEncoder>(*this);
}

std::string BpeTokenizer::name_of(std::int32_t id) const {
  const auto name = names_.find(id);
  return name == names_.end() ? "" : name->second;
}

std::string BpeTokenizer::piece_of(std::int32_t id) const {
  if (id < 0 || id >= vocab_size() || texts_[static_cast<std::size_t>(id)].empty()) return name_of(id);
  return bytes_of_token(texts_[static_cast<std::size_t>(id)], steps_.decoders);
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw Error(Code::kData, "cannot decode token id ", id, ": the tokenizer has ids 0 to ",
                  vocab_size() - 1);
    }
    const std::string& text = texts_[static_cast<std::size_t>(id)];
    if (!text.empty()) tokens.push_back(text);
  }
  return replace_invalid_utf8(decode_tokens(std::move(tokens), steps_.decoders));
}

}  // namespace echelon::data
