#include "text/decode_any.h"

#include <algorithm>
#include <iterator>

namespace echelon::data {

std::string decode_any(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  const auto is_known = [&](std::int32_t id) { return id >= 0 && id < tokenizer.vocab_size(); };
  std::string text;
  while (!ids.empty()) {
    const auto end = std::ranges::find_if_not(ids, is_known);
    const auto known = static_cast<std::size_t>(std::distance(ids.begin(), end));
    if (known > 0) text += tokenizer.decode(ids.first(known));
    ids = ids.subspan(known);
    if (ids.empty()) break;
    text += "\xEF\xBF\xBD";
    ids = ids.subspan(1);
  }
  return text;
}

}  // namespace echelon::data
