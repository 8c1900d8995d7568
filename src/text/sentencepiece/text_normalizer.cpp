#include "text/sentencepiece/text_normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/utf8.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "text/bpe/added_token_finder.h"
#include "text/text_pieces.h"
#include "text/unigram/charsmap.h"

namespace echelon::data {
namespace {

const icu::Normalizer2* instance_of(Normalization step, UErrorCode& status) {
  switch (step) {
    case Normalization::kNfc: return icu::Normalizer2::getNFCInstance(status);
    case Normalization::kNfd: return icu::Normalizer2::getNFDInstance(status);
    case Normalization::kNfkc: return icu::Normalizer2::getNFKCInstance(status);
    default: return icu::Normalizer2::getNFKDInstance(status);
  }
}

/// `tokenizers` normalizes by the tables of Unicode 9; characters of later versions stay as they are and keep
/// their places.
const icu::UnicodeSet& normalized_characters() {
  static const icu::UnicodeSet set = [] {
    UErrorCode status = U_ZERO_ERROR;
    icu::UnicodeSet characters(u"[:Age=9.0:]", status);
    if (U_FAILURE(status)) {
      throw Error(Code::kEnvironment, "the ICU library has no character data: ", u_errorName(status));
    }
    characters.freeze();
    return characters;
  }();
  return set;
}

/// Pairs of letters that Unicode 16 added; the ICU of a distribution may be older.
UChar32 lowercase_of(UChar32 c) {
  constexpr std::array<std::pair<UChar32, UChar32>, 5> kPairs{
      {{0x1C89, 0x1C8A}, {0xA7CB, 0x264}, {0xA7CC, 0xA7CD}, {0xA7DA, 0xA7DB}, {0xA7DC, 0x19B}}};
  for (const auto& [large, small] : kPairs) {
    if (c == large) return small;
  }
  return c >= 0x10D50 && c <= 0x10D65 ? c + 0x20 : u_tolower(c);
}

constexpr UChar32 kNone = -1;

/// Changes character by character, as `tokenizers` does: no rule looks at neighbors. `change` gives what a
/// character becomes, or kNone.
template <class Change>
std::string each_changed(std::string_view text, Change&& change) {
  std::string out;
  out.reserve(text.size());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(text.size());) {
    UChar32 c = 0;
    U8_NEXT(bytes, at, static_cast<std::int64_t>(text.size()), c);
    const UChar32 to = change(c);
    if (to == kNone) continue;
    std::array<char, U8_MAX_LENGTH> encoded{};
    std::size_t size = 0;
    U8_APPEND_UNSAFE(encoded, size, to);
    out.append(encoded.data(), size);
  }
  return out;
}

std::string lowercase(std::string_view text) {
  constexpr std::string_view kDottedI = "\xC4\xB0";  // the one character whose small form is two
  return each_changed(replace_all(text, kDottedI, "i\xCC\x87"), lowercase_of);
}

/// A mark in Unicode 9; three characters have changed since.
bool is_accent(UChar32 c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;
  return (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0 && c != 0x111C9 && normalized_characters().contains(c);
}

/// The normalizer Nmt: drops control characters, and makes spaces of what separates text.
UChar32 nmt_of(UChar32 c) {
  const bool control =
      (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  if (control) return kNone;
  const bool separator = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                         c == 0xFEFF || c == 0xFFFD;
  return separator ? ' ' : c;
}

void normalize_by_icu(Normalization step, std::string& text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* all = instance_of(step, status);
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  if (U_SUCCESS(status) && text.size() <= (std::size_t{1} << 30)) {
    icu::FilteredNormalizer2(*all, normalized_characters())
        .normalizeUTF8(0, {text.data(), static_cast<std::int32_t>(text.size())}, sink, nullptr, status);
  } else if (U_SUCCESS(status)) {
    status = U_BUFFER_OVERFLOW_ERROR;
  }
  if (U_FAILURE(status)) {
    throw Error(Code::kData, "cannot normalize a text of ", text.size(), " bytes: ", u_errorName(status));
  }
  text = std::move(out);
}

std::string replace_matches(std::string_view text, const SplitPattern::Matcher& matcher,
                            std::string_view content) {
  std::string out;
  for_each_match(text, matcher, false, [&](const TextPiece& piece) {
    out += piece.is_match ? content : text.substr(piece.begin, piece.end - piece.begin);
  });
  return out;
}

std::string without_spaces(const std::string& text, bool left, bool right) {
  const std::size_t begin = left ? skip_spaces(text, 0) : 0;
  const std::size_t end = right ? skip_spaces_back(text, text.size()) : text.size();
  return begin < end ? text.substr(begin, end - begin) : "";
}

void apply(const NormalizerStep& step, const std::optional<SplitPattern::Matcher>& matcher,
           std::string& text) {
  switch (step.kind) {
    case Normalization::kNmt: text = each_changed(text, nmt_of); return;
    case Normalization::kLowercase: text = lowercase(text); return;
    case Normalization::kStrip: text = without_spaces(text, step.left, step.right); return;
    case Normalization::kStripAccents:
      text = each_changed(text, [](UChar32 c) { return is_accent(c) ? kNone : c; });
      return;
    case Normalization::kPrepend:
      if (!text.empty()) text.insert(0, step.content);
      return;
    case Normalization::kReplace:
      text = matcher ? replace_matches(text, *matcher, step.content)
                     : replace_all(text, step.pattern, step.content);
      return;
    case Normalization::kPrecompiled: text = apply_charsmap(*step.table, text); return;
    default: normalize_by_icu(step.kind, text);
  }
}

}  // namespace

TextNormalizer::TextNormalizer(const std::vector<NormalizerStep>& steps) : steps_(steps) {
  for (const NormalizerStep& step : steps) {
    matchers_.emplace_back();
    if (step.regex) matchers_.back().emplace(*step.regex);
  }
}

std::string TextNormalizer::normalize(std::string_view text) const {
  std::string current(text);
  for (std::size_t i = 0; i < steps_.size(); ++i) apply(steps_[i], matchers_[i], current);
  return current;
}

}  // namespace echelon::data
