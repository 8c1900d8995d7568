#include "text/unigram/charsmap.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <cstdint>

#include "text/bpe/unicode_additions.h"

namespace echelon::data {
namespace {

struct Character {
  UChar32 code = 0;
  std::size_t end = 0;
  int kind = U_GCB_OTHER;  // its Grapheme_Cluster_Break
};

/// Marks that the ICU of a distribution does not know yet extend a cluster as others do.
int kind_of(UChar32 c) {
  if (u_charType(c) == U_UNASSIGNED) {
    for (const AddedCharacters& added : unicode_additions()) {
      const auto code = static_cast<std::uint32_t>(c);
      if (code >= added.first && code <= added.last && added.category[0] == 'M') return U_GCB_EXTEND;
    }
  }
  return u_getIntPropertyValue(c, UCHAR_GRAPHEME_CLUSTER_BREAK);
}

Character decode_at(std::string_view text, std::size_t at) {
  Character c;
  auto end = static_cast<std::int64_t>(at);
  U8_NEXT(reinterpret_cast<const std::uint8_t*>(text.data()), end, static_cast<std::int64_t>(text.size()),
          c.code);
  c.end = static_cast<std::size_t>(end);
  c.kind = kind_of(c.code);
  return c;
}

bool breaks_alone(int kind) {
  return kind == U_GCB_CONTROL || kind == U_GCB_CR || kind == U_GCB_LF;
}

/// Whether Korean letters form one syllable.
bool is_syllable(int left, int right) {
  if (left == U_GCB_L) return right == U_GCB_L || right == U_GCB_V || right == U_GCB_LV || right == U_GCB_LVT;
  if (left == U_GCB_LV || left == U_GCB_V) return right == U_GCB_V || right == U_GCB_T;
  return (left == U_GCB_LVT || left == U_GCB_T) && right == U_GCB_T;
}

/// Rules GB3 to GB9b of Unicode's annex 29. GB12 joins characters of six bytes and more in all, so here it
/// changes nothing. GB9c is left out, because ICU knows its letters only since version 76: what follows the
/// virama of an Indic letter begins a cluster.
bool joins(int left, int right) {
  if (left == U_GCB_CR && right == U_GCB_LF) return true;
  if (breaks_alone(left) || breaks_alone(right)) return false;
  return right == U_GCB_EXTEND || right == U_GCB_ZWJ || right == U_GCB_SPACING_MARK ||
         left == U_GCB_PREPEND || is_syllable(left, right);
}

bool is_picture(UChar32 c) {
  return u_hasBinaryProperty(c, UCHAR_EXTENDED_PICTOGRAPHIC) != 0;
}

std::size_t cluster_end(std::string_view text, std::size_t begin) {
  Character left = decode_at(text, begin);
  bool picture = is_picture(left.code);  // only what extends a picture came since
  while (left.end < text.size()) {
    const Character right = decode_at(text, left.end);
    const bool pictures = picture && left.kind == U_GCB_ZWJ && is_picture(right.code);  // GB11
    if (!pictures && !joins(left.kind, right.kind)) break;
    picture = pictures ||
              (picture && left.kind != U_GCB_ZWJ && (right.kind == U_GCB_EXTEND || right.kind == U_GCB_ZWJ));
    left = right;
  }
  return left.end;
}

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

/// Two ASCII characters are two clusters, but for a carriage return and a newline.
bool stands_apart(std::string_view text, std::size_t at) {
  return is_ascii(text[at]) && text[at] != '\r' && (at + 1 == text.size() || is_ascii(text[at + 1]));
}

}  // namespace

std::string apply_charsmap(const NormalizerTable& table, std::string_view text) {
  constexpr std::size_t kLongCluster = 6;
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t kept = at;
    while (at < text.size() && stands_apart(text, at) && table.keeps(text[at])) ++at;
    out += text.substr(kept, at - kept);
    if (at == text.size()) break;
    const std::size_t end = stands_apart(text, at) ? at + 1 : cluster_end(text, at);
    if (end - at < kLongCluster) {
      if (const auto to = table.find(text.substr(at, end - at))) {
        out += *to;
        at = end;
        continue;
      }
    }
    while (at < end) {
      std::size_t next = at;
      U8_FWD_1_UNSAFE(text.data(), next);
      const std::string_view character = text.substr(at, next - at);
      out += table.find(character).value_or(character);
      at = next;
    }
  }
  return out;
}

}  // namespace echelon::data
