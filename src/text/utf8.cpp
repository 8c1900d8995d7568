#include "text/utf8.h"

#include <unicode/utf8.h>

#include <cstdint>
#include <cstring>

#include "base/foreign_text.h"

namespace echelon::data {

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t eight = 0;
    if (text.size() - at >= 8) {
      std::memcpy(&eight, text.data() + at, 8);
      if ((eight & 0x8080808080808080U) == 0) {  // eight ASCII characters
        at += 8;
        continue;
      }
    }
    const std::size_t length = utf8_length(text.substr(at, 4));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

std::string replace_invalid_utf8(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto size = static_cast<std::int64_t>(text.size());
  std::string out;
  for (std::int64_t at = 0; at < size;) {
    const std::int64_t begin = at;
    UChar32 c = 0;
    U8_NEXT(bytes, at, size, c);
    out += c < 0 ? kReplacement
                 : text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(at - begin));
  }
  return out;
}

}  // namespace echelon::data
