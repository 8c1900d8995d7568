#include "text/template/chars.h"

#include <unicode/uchar.h>
#include <unicode/ustring.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>

#include "base/foreign_text.h"

namespace echelon::data::jinja {
namespace {

enum class Case { kUpper, kLower, kTitle };

/// One character of another case, which may be several.
void append_in_case(Text& out, const Char& from, Case to) {
  std::array<UChar, 2> in{};
  std::array<UChar, 12> made{};
  UErrorCode status = U_ZERO_ERROR;
  std::int32_t size = 0;
  U16_APPEND_UNSAFE(in, size, from.code);
  std::int32_t count = 0;
  const auto room = static_cast<std::int32_t>(made.size());
  if (to == Case::kUpper) count = u_strToUpper(made.data(), room, in.data(), size, "", &status);
  if (to == Case::kLower) count = u_strToLower(made.data(), room, in.data(), size, "", &status);
  if (to == Case::kTitle) count = u_strToTitle(made.data(), room, in.data(), size, nullptr, "", &status);
  if (U_FAILURE(status)) count = 0;
  if (count == 0) out.push_back(from);
  for (std::int32_t at = 0; at < count;) {
    UChar32 code = 0;
    U16_NEXT(made.data(), at, count, code);
    Char next = from;
    next.code = static_cast<std::uint32_t>(code) & 0x7FFFFFFFU;
    out.push_back(next);
  }
}

/// Returns whether a cased letter stands before (`step` -1) or behind (1) the place; case-ignorable ones are
/// skipped.
bool is_beside_cased(const Text& text, std::size_t at, int step) {
  for (auto i = static_cast<std::ptrdiff_t>(at) + step; i >= 0 && i < std::ssize(text); i += step) {
    const auto code = static_cast<UChar32>(text[static_cast<std::size_t>(i)].code);
    if (!u_hasBinaryProperty(code, UCHAR_CASE_IGNORABLE)) return u_hasBinaryProperty(code, UCHAR_CASED) != 0;
  }
  return false;
}

void append_lower(Text& out, const Text& text, std::size_t at) {
  constexpr std::uint32_t kSigma = 0x3A3;
  constexpr std::uint32_t kFinalSigma = 0x3C2;
  if (text[at].code != kSigma || !is_beside_cased(text, at, -1) || is_beside_cased(text, at, 1))
    return append_in_case(out, text[at], Case::kLower);
  out.push_back(text[at]);
  out.back().code = kFinalSigma;
}

}  // namespace

Text to_text(std::string_view utf8, std::int32_t origin) {
  Text text;
  text.reserve(utf8.size());
  for (std::size_t at = 0; at < utf8.size();) {
    const std::size_t size = std::max<std::size_t>(1, utf8_length(utf8.substr(at, 4)));
    text.push_back(make_char(code_point(utf8.substr(at, size)), origin));
    at += size;
  }
  return text;
}

void append_utf8(std::uint32_t code, std::string& out) {
  std::array<char, U8_MAX_LENGTH> bytes{};
  std::size_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, code);
  out.append(bytes.data(), size);
}

std::string to_utf8(const Text& text) {
  std::string out;
  out.reserve(text.size());
  for (const Char c : text) append_utf8(c.code, out);
  return out;
}

void append(Text& text, const Text& more) {
  text.insert(text.end(), more.begin(), more.end());
}

void append(Text& text, std::string_view ascii) {
  for (const char c : ascii) text.push_back(make_char(static_cast<unsigned char>(c)));
}

bool is_space(std::uint32_t code) {
  return (code >= 9 && code <= 13) || (code >= 28 && code <= 32) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_printable(std::uint32_t code) {
  constexpr std::uint32_t kHidden =
      U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CS_MASK | U_GC_CO_MASK | U_GC_CN_MASK | U_GC_Z_MASK;
  return code == ' ' || (U_GET_GC_MASK(static_cast<UChar32>(code)) & kHidden) == 0;
}

Text slice(const Text& text, std::size_t begin, std::size_t end) {
  const auto at = [&](std::size_t i) { return text.begin() + static_cast<std::ptrdiff_t>(i); };
  return {at(begin), at(std::max(begin, end))};
}

Text strip(const Text& text, const Text* set, bool left, bool right) {
  const auto goes = [&](const Char& c) {
    return set == nullptr ? is_space(c.code) : std::ranges::find(*set, c) != set->end();
  };
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (left && begin < end && goes(text[begin])) ++begin;
  while (right && begin < end && goes(text[end - 1])) --end;
  return slice(text, begin, end);
}

std::size_t find(const Text& text, const Text& part, std::size_t from) {
  if (from > text.size() || part.size() > text.size() - from) return text.size() + 1;
  const auto at =
      std::search(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), part.begin(), part.end());
  return at == text.end() && !part.empty() ? text.size() + 1 : static_cast<std::size_t>(at - text.begin());
}

Text upper(const Text& text) {
  Text out;
  for (const Char c : text) append_in_case(out, c, Case::kUpper);
  return out;
}

Text lower(const Text& text) {
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) append_lower(out, text, i);
  return out;
}

Text capitalize(const Text& text) {
  Text out;
  if (!text.empty()) append_in_case(out, text[0], Case::kTitle);
  for (std::size_t i = 1; i < text.size(); ++i) append_lower(out, text, i);
  return out;
}

Text title(const Text& text) {
  Text out;
  bool in_word = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    in_word ? append_lower(out, text, i) : append_in_case(out, text[i], Case::kTitle);
    in_word = u_hasBinaryProperty(static_cast<UChar32>(text[i].code), UCHAR_CASED) != 0;
  }
  return out;
}

}  // namespace echelon::data::jinja
