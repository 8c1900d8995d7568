#include "text/bpe/added_token_finder.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>

#include "text/bpe/unicode_additions.h"

namespace echelon::data {
namespace {

UChar32 character_at(std::string_view text, std::size_t at) {
  UChar32 c = 0;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  U8_GET(bytes, 0, at, static_cast<std::int64_t>(text.size()), c);
  return c;
}

/// Where the character that ends at `end` > 0 begins.
std::size_t character_before(std::string_view text, std::size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80);
  return end;
}

/// \w of Unicode's technical standard 18.
bool is_word(UChar32 c) {
  for (const AddedCharacters& added : unicode_additions()) {
    const auto code = static_cast<std::uint32_t>(c);
    if (code < added.first || code > added.last) continue;
    return added.category[0] == 'L' || added.category[0] == 'M' || added.category == "Nd";
  }
  const auto type = u_charType(c);
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0 ||
         type == U_NON_SPACING_MARK || type == U_ENCLOSING_MARK || type == U_COMBINING_SPACING_MARK ||
         type == U_DECIMAL_DIGIT_NUMBER || type == U_CONNECTOR_PUNCTUATION;
}

bool is_space(UChar32 c) {
  return u_hasBinaryProperty(c, UCHAR_WHITE_SPACE) != 0;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word(character_at(text, character_before(text, begin)))) return false;
  return end == text.size() || !is_word(character_at(text, end));
}

bool touches(std::span<const TextSpan> spans, std::size_t begin, std::size_t end) {
  const auto next =
      std::ranges::partition_point(spans, [&](const TextSpan& span) { return span.end <= begin; });
  return next != spans.end() && next->begin < end;
}

}  // namespace

std::size_t skip_spaces(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const UChar32 c = character_at(text, end);
    if (!is_space(c)) break;
    end += static_cast<std::size_t>(U8_LENGTH(c));
  }
  return end;
}

std::size_t skip_spaces_back(std::string_view text, std::size_t begin) {
  while (begin > 0) {
    const std::size_t before = character_before(text, begin);
    if (!is_space(character_at(text, before))) break;
    begin = before;
  }
  return begin;
}

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  const auto by_content = [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; };
  std::ranges::stable_sort(tokens_, by_content);
  for (const AddedToken& token : tokens_) {
    first_bytes_.set(static_cast<unsigned char>(token.content[0]));
  }
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text, std::size_t at,
                                               std::span<const TextSpan> typed) const {
  const AddedToken* longest = nullptr;
  auto [begin, end] = std::pair(tokens_.begin(), tokens_.end());
  for (std::size_t depth = 0; begin != end && at + depth < text.size(); ++depth) {
    // All tokens in [begin, end) match the text so far; those that end here have been considered.
    const auto byte = static_cast<unsigned char>(text[at + depth]);
    const auto byte_of = [&](const AddedToken& token) {
      return token.content.size() > depth ? static_cast<int>(static_cast<unsigned char>(token.content[depth]))
                                          : -1;
    };
    begin = std::partition_point(begin, end, [&](const AddedToken& token) { return byte_of(token) < byte; });
    end = std::partition_point(begin, end, [&](const AddedToken& token) { return byte_of(token) <= byte; });
    const bool whole = begin != end && begin->content.size() == depth + 1;
    if (whole && !(begin->special && touches(typed, at, at + depth + 1))) longest = &*begin;
  }
  return longest;
}

void AddedTokenFinder::split(std::string_view text, std::span<const TextSpan> typed, const OnText& on_text,
                             const OnToken& on_token) const {
  std::size_t given = 0;  // text up to here has been emitted
  for (std::size_t at = 0; at < text.size() && first_bytes_.any();) {
    const bool begins = first_bytes_[static_cast<unsigned char>(text[at])];
    const AddedToken* token = begins ? longest_at(text, at, typed) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + token->content.size();
    at = end;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    if (token->lstrip) begin = std::max(skip_spaces_back(text, begin), given);
    if (token->rstrip) end = skip_spaces(text, end);
    if (given < begin) on_text(text.substr(given, begin - given));
    on_token(token->id);
    given = end;
  }
  if (given < text.size()) on_text(text.substr(given));
}

}  // namespace echelon::data
