#pragma once
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "text/sentencepiece/piece_tree.h"
#include "text/sentencepiece/sentencepiece_traits.h"

namespace echelon::data {

/// U+2581, sentencepiece's sign for a space.
inline constexpr std::string_view kSpaceSign = "\xE2\x96\x81";

/// What each piece of a unigram model counts for in sentencepiece's search, by id: the file's score, but for
/// user-defined symbols, which are chosen before others.
[[nodiscard]] std::vector<double> unigram_scores(const SentencepieceTraits& traits);

/// Segments text with a unigram model word by word, with the ids that sentencepiece gives to the whole.
///
/// The best pieces of a text are a shortest path: pieces are edges between the places of its characters.
/// Where no piece holds a space sign but at its front, every path goes through the place before each space
/// sign, so that words meet there. sentencepiece adds scores up over the whole text in fp32, and rounding
/// decides between pieces of almost equal score; so a word's edges are made once, but its path is found anew,
/// from the score that its text has so far, in the order and with the roundings of sentencepiece's own search
/// (unigram_model.cc, EncodeOptimized). Immutable: usable by several threads.
class UnigramWords {
 public:
  /// Nothing for a model that gives no such promise: not unigram, spaces kept or put behind words, bytes for
  /// unknown characters, rules or pieces that reach over a space.
  [[nodiscard]] static std::unique_ptr<const UnigramWords> of(const SentencepieceTraits& traits);

  /// Does this byte stand between words? It is never part of a character or of a rule of the normaliser.
  [[nodiscard]] bool separates(char byte) const { return separators_[static_cast<unsigned char>(byte)]; }

  /// Is `text` nothing but words and what separates them, and are these short enough to be worth it?
  [[nodiscard]] bool can_split(std::string_view text) const;

  /// Does the normaliser leave this word as it is, but for the space sign in front?
  [[nodiscard]] bool is_plain(std::string_view word) const;

  /// Edges of a word as the normaliser leaves it, for extend(): an id, begin and end in bytes of each, in the
  /// order in which sentencepiece tries them.
  void find_edges(std::string_view normalized, std::vector<std::int32_t>& edges) const;

  /// Memory of a search, kept from word to word. One for each thread.
  struct Place {
    float score = 0;
    std::int32_t id = -1;
    std::int32_t begin = -1;  // of the edge that ends here; -1: none does
  };
  using Places = std::vector<Place>;

  /// Appends the ids of the word with these edges to `ids`, where its text has `score` so far; returns the
  /// score behind it.
  float extend(std::span<const std::int32_t> edges, float score, Places& places,
               std::vector<std::int32_t>& ids) const;

 private:
  UnigramWords() = default;
  bool take_pieces(const SentencepieceTraits& traits);
  bool take_rules(const SentencepieceTraits& traits);

  std::bitset<256> separators_;
  std::bitset<256> plain_;            // ASCII that no rule changes where only ASCII stands behind it
  bool space_sign_is_space_ = false;  // the normaliser makes a space of it
  PieceTree pieces_;
  std::vector<double> scores_;  // by id
  std::int32_t unknown_ = -1;
};

}  // namespace echelon::data
