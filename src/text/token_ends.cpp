#include "text/token_ends.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

std::size_t skip_blank(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

}  // namespace

std::vector<std::size_t> token_ends(const Tokenizer& tokenizer, std::string_view text,
                                    std::span<const std::int32_t> ids) {
  std::vector<std::size_t> ends;
  std::size_t at = 0;
  const auto stands_at = [&](std::size_t place, std::string_view piece) {
    return text.substr(place).starts_with(piece);
  };
  bool free = true;  // the start of the text or the place behind a special symbol
  for (const std::int32_t id : ids) {
    const std::string piece = tokenizer.piece_of(id);
    const bool special = tokenizer.is_special(id);
    std::size_t begin = at;
    std::size_t size = piece.size();
    if (!stands_at(at, piece) && (special || free)) {
      const std::size_t behind_blank = skip_blank(text, at);
      if (stands_at(behind_blank, piece)) {
        begin = behind_blank;
        if (!special && !ends.empty()) ends.back() = begin;
      } else if (piece.starts_with(' ')) {  // put in front of a text by the tokenizer
        --size;
      }
    }
    if (!stands_at(begin, std::string_view(piece).substr(piece.size() - size))) break;
    at = begin + size;
    ends.push_back(at);
    free = special;
  }
  if (free && !ends.empty() && skip_blank(text, at) == text.size()) ends.back() = at = text.size();
  if (ends.size() == ids.size() && at == text.size()) return ends;
  throw Error(Code::kData, "the tokenizer changes this text: its tokens give another one from '",
              printable(text.substr(at), 40), "' on, so what of it is trained is not known");
}

}  // namespace echelon
