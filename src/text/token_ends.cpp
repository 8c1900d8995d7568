#include "text/token_ends.h"

#include <string>

#include "base/error.h"
#include "base/str.h"
#include "text/bpe/added_token_finder.h"

namespace echelon {

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
      const std::size_t behind_blank = data::skip_spaces(text, at);
      const bool whole = stands_at(behind_blank, piece);
      if (!whole && piece.starts_with(' ')) --size;  // put in front of a text by the tokenizer
      if (whole || !stands_at(at, std::string_view(piece).substr(piece.size() - size))) begin = behind_blank;
    }
    if (!stands_at(begin, std::string_view(piece).substr(piece.size() - size))) break;
    if (!special) {  // the blanks are the special symbol's, also before a space of the tokenizer alone
      for (auto end = ends.rbegin(); end != ends.rend() && *end == at; ++end) *end = begin;
    }
    at = begin + size;
    ends.push_back(at);
    free = special || size == 0;
  }
  if (free && !ends.empty() && data::skip_spaces(text, at) == text.size()) ends.back() = at = text.size();
  if (ends.size() == ids.size() && at == text.size()) return ends;
  throw Error(Code::kData, "the tokenizer changes this text: its tokens give another one from '",
              printable(text.substr(at), 40), "' on, so what of it is trained is not known");
}

}  // namespace echelon
