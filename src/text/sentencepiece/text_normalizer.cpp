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
#include "text/utf8.h"

namespace echelon::data {
namespace {

const icu::Normalizer2* instance_of(Normalization step, UErrorCode& status) {
  switch (step) {
    case Normalization::kNfc:
      return icu::Normalizer2::getNFCInstance(status);
    case Normalization::kNfd:
      return icu::Normalizer2::getNFDInstance(status);
    case Normalization::kNfkc:
      return icu::Normalizer2::getNFKCInstance(status);
    default:
      return icu::Normalizer2::getNFKDInstance(status);
  }
}

/// `tokenizers` normalizes by the tables of Unicode 9; characters of later versions stay as they are and keep
/// their places.
const icu::UnicodeSet& normalized_characters() {
  static const icu::UnicodeSet set = [] {
    UErrorCode status = U_ZERO_ERROR;
    icu::UnicodeSet characters(u"[:Age=9.0:]", status);
    if (U_FAILURE(status)) {
      throw Error(Code::kEnvironment, str("the ICU library has no character data: ", u_errorName(status)));
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

/// Character by character, as `tokenizers` does: no rule looks at neighbors.
std::string lowercase(std::string_view text) {
  constexpr UChar32 kDottedI = 0x130;  // the one character whose small form is two
  std::string out;
  out.reserve(text.size());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(text.size());) {
    UChar32 c = 0;
    U8_NEXT(bytes, at, static_cast<std::int64_t>(text.size()), c);
    if (c == kDottedI) {
      out += "i\xCC\x87";
      continue;
    }
    std::array<char, U8_MAX_LENGTH> encoded{};
    std::size_t size = 0;
    U8_APPEND_UNSAFE(encoded, size, lowercase_of(c));
    out.append(encoded.data(), size);
  }
  return out;
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
    throw Error(Code::kData,
                str("cannot normalise a text of ", text.size(), " bytes: ", u_errorName(status)));
  }
  text = std::move(out);
}

}  // namespace

std::string normalize(std::string_view text, const std::vector<NormalizerStep>& steps) {
  std::string current(text);
  for (const NormalizerStep& step : steps) {
    if (step.kind == Normalization::kLowercase) {
      current = lowercase(current);
    } else if (step.kind == Normalization::kReplace) {
      current = replace_all(current, step.pattern, step.content);
    } else if (step.kind == Normalization::kPrepend) {
      if (!current.empty()) current.insert(0, step.content);
    } else {
      normalize_by_icu(step.kind, current);
    }
  }
  return current;
}

}  // namespace echelon::data
