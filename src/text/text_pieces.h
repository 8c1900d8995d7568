#pragma once
#include <string_view>
#include <vector>

#include "text/bpe/split_pattern.h"
#include "text/bpe/tokenizer_json.h"

namespace echelon::data {

/// A part of a text: a match of a pattern, or the text between two.
struct TextPiece {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_match = false;
};

/// Cuts `text` into matches (`invert`: what is no match) and the rest, in order; may give empty matches.
template <class OnPiece>
void for_each_match(std::string_view text, const SplitPattern::Matcher& matcher, bool invert,
                    OnPiece&& on_piece) {
  std::size_t given = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const auto match = matcher.find(text, at);
    if (!match) break;
    const bool empty = match->begin == match->end;
    if (!empty || match->end != given || given == 0) {
      if (given < match->begin) on_piece(TextPiece{given, match->begin, invert});
      on_piece(TextPiece{match->begin, match->end, !invert});
      given = match->end;
    }
    at = match->end;
    // An empty match must not be found again; the next character begins where a byte continues none.
    if (empty) {
      do {
        ++at;
      } while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80);
    }
  }
  if (given < text.size()) on_piece(TextPiece{given, text.size(), invert});
}

/// Applies `behavior` to pieces: joins some, and leaves out those to be removed.
[[nodiscard]] std::vector<TextPiece> apply_behavior(SplitBehavior behavior,
                                                    const std::vector<TextPiece>& pieces);

/// Gives the parts, none empty, into which a pre-tokenizer Split cuts `text` (valid UTF-8).
template <class OnPart>
void for_each_piece(std::string_view text, const SplitPattern::Matcher& matcher, SplitBehavior behavior,
                    bool invert, OnPart&& on_part) {
  const auto give = [&](const TextPiece& piece) {
    if (piece.begin < piece.end) on_part(text.substr(piece.begin, piece.end - piece.begin));
  };
  if (behavior == SplitBehavior::kIsolated) return for_each_match(text, matcher, invert, give);
  std::vector<TextPiece> pieces;
  for_each_match(text, matcher, invert, [&](const TextPiece& piece) { pieces.push_back(piece); });
  for (const TextPiece& piece : apply_behavior(behavior, pieces)) give(piece);
}

}  // namespace echelon::data
