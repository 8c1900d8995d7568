#include "text/sentencepiece/unigram_words.h"

#include <algorithm>
#include <limits>
#include <string>

#include "text/sentencepiece/normalizer_table.h"

namespace echelon::data {
namespace {

using Type = SentencepiecePiece::Type;

constexpr std::string_view kAsciiSpaces = " \t\n\v\f\r";
constexpr std::size_t kIntsPerEdge = 3;

bool is_ascii(char byte) {
  return static_cast<unsigned char>(byte) < 0x80;
}

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Length of the character that begins with `lead`; 1 for a byte that is not a lead byte.
std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

std::vector<double> unigram_scores(const SentencepieceTraits& traits) {
  float most = std::numeric_limits<float>::min();  // as sentencepiece has it: not lowest()
  for (const SentencepiecePiece& piece : traits.pieces) {
    if (piece.type == Type::kNormal) most = std::max(most, piece.score);
  }
  std::vector<double> scores;
  for (const SentencepiecePiece& piece : traits.pieces) {
    const bool symbol = piece.type == Type::kUserDefined;
    scores.push_back(symbol ? static_cast<float>(piece.text.size()) * most - 0.1 : piece.score);
  }
  return scores;
}

std::unique_ptr<const UnigramWords> UnigramWords::of(const SentencepieceTraits& traits) {
  const bool splits_at_spaces = traits.add_dummy_prefix && traits.remove_extra_whitespaces &&
                                traits.escape_whitespaces && !traits.treat_whitespace_as_suffix;
  if (traits.type != SentencepieceTraits::Type::kUnigram || traits.byte_fallback || !splits_at_spaces)
    return {};
  std::unique_ptr<UnigramWords> words(new UnigramWords);
  if (!words->take_rules(traits) || !words->take_pieces(traits)) return {};
  return words;
}

bool UnigramWords::take_rules(const SentencepieceTraits& traits) {
  separators_.set(' ');
  for (std::size_t byte = 0; byte < 128; ++byte) plain_.set(byte);
  if (traits.normalizer_table.empty()) return true;
  std::bitset<256> spaces;  // a rule makes a space of the byte alone
  std::bitset<256> others;  // bytes of all other rules
  bool plain = true;
  const bool whole = for_each_rule(traits.normalizer_table, [&](std::string_view from, std::string_view to) {
    const bool ascii = std::all_of(from.begin(), from.end(), is_ascii);
    const bool space = from.size() == 1 && to == " ";
    for (const char c : from) {
      const auto byte = static_cast<unsigned char>(c);
      (space ? spaces : others).set(byte);
      if (ascii) plain_.reset(byte);
    }
    if (from == kSpaceSign && to == " ") {
      space_sign_is_space_ = true;
    } else if (holds(from, kSpaceSign)) {
      plain = false;
    }
    // Runs of spaces shrink between rules, not within what one of them gives.
    if (holds(to, "  ") || holds(to, kSpaceSign)) plain = false;
  });
  for (const char space : kAsciiSpaces) {
    const auto byte = static_cast<unsigned char>(space);
    separators_[byte] = (space == ' ' || spaces[byte]) && !others[byte];
  }
  return whole && plain && separates(' ');
}

bool UnigramWords::take_pieces(const SentencepieceTraits& traits) {
  float least = std::numeric_limits<float>::max();
  bool space_is_piece = false;
  std::size_t bytes = 0;
  for (const SentencepiecePiece& piece : traits.pieces) {
    if (piece.type == Type::kNormal) least = std::min(least, piece.score);
  }
  scores_ = unigram_scores(traits);
  for (std::size_t n = 0; n < scores_.size(); ++n) {
    const SentencepiecePiece& piece = traits.pieces[n];
    const auto id = static_cast<std::int32_t>(n);
    if (piece.type == Type::kUnknown) {
      unknown_ = id;
      scores_[n] = least - 10.0F;  // unknown characters cost 10 more than the least likely piece
    }
    bytes += piece.text.size();
    if (piece.type == Type::kByte || bytes >= PieceTree::kMostBytes) return false;
    if (piece.type != Type::kNormal && piece.type != Type::kUserDefined) continue;
    if (piece.text.empty() || holds(piece.text.substr(1), kSpaceSign)) return false;
    if (piece.type == Type::kUserDefined) {
      // The normaliser leaves these as they are; chosen before all others.
      const auto separates = [this](char byte) { return this->separates(byte); };
      if (holds(piece.text, kSpaceSign) || std::any_of(piece.text.begin(), piece.text.end(), separates))
        return false;
    }
    space_is_piece = space_is_piece || piece.text == kSpaceSign;
    pieces_.insert(piece.text, id);
  }
  // A space sign that is unknown would join the unknown characters before it.
  return unknown_ >= 0 && space_is_piece;
}

bool UnigramWords::is_plain(std::string_view word) const {
  return std::all_of(word.begin(), word.end(),
                     [this](char c) { return plain_[static_cast<unsigned char>(c)]; });
}

bool UnigramWords::can_split(std::string_view text) const {
  if (!space_sign_is_space_ && holds(text, kSpaceSign)) return false;
  constexpr std::size_t kLongWords = 32;  // average bytes per word: longer words rarely repeat
  const auto count = std::count_if(text.begin(), text.end(), [this](char byte) { return separates(byte); });
  return text.size() <= kLongWords * (static_cast<std::size_t>(count) + 1);
}

void UnigramWords::find_edges(std::string_view normalized, std::vector<std::int32_t>& made) const {
  made.clear();
  for (std::size_t begin = 0; begin < normalized.size();) {
    const std::size_t next = std::min(begin + character_bytes(normalized[begin]), normalized.size());
    const auto add = [&](std::int32_t id, std::size_t end) {
      made.insert(made.end(), {id, static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)});
    };
    bool alone = false;  // is the character itself a piece?
    PieceTree::Node node;
    for (std::size_t end = begin; end < normalized.size();) {
      node = pieces_.child(node, normalized[end]);
      if (node.number == 0) break;
      ++end;
      if (!node.ends_piece) continue;
      add(pieces_.piece(node), end);
      alone = alone || end == next;
    }
    if (!alone) add(unknown_, next);
    begin = next;
  }
}

float UnigramWords::extend(std::span<const std::int32_t> edges, float score, Places& places,
                           std::vector<std::int32_t>& ids) const {
  if (edges.empty()) return score;
  // The last edge of all ends with the word: it begins at the last character.
  const auto size = static_cast<std::size_t>(edges.back());
  places.assign(size + 1, Place{});
  places[0].score = score;
  for (std::size_t i = 0; i < edges.size(); i += kIntsPerEdge) {
    const std::int32_t id = edges[i];
    const std::int32_t begin = edges[i + 1];
    double candidate =
        scores_[static_cast<std::size_t>(id)] + double{places[static_cast<std::size_t>(begin)].score};
    if (id == unknown_) candidate = static_cast<float>(candidate);
    Place& end = places[static_cast<std::size_t>(edges[i + 2])];
    if (end.begin >= 0 && candidate <= double{end.score}) continue;
    end = {static_cast<float>(candidate), id, begin};
  }
  const std::size_t first = ids.size();
  for (std::size_t at = size; at > 0; at = static_cast<std::size_t>(places[at].begin)) {
    // Unknown characters side by side are one unknown piece.
    if (places[at].id != unknown_ || ids.size() == first || ids.back() != unknown_)
      ids.push_back(places[at].id);
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
  return places[size].score;
}

}  // namespace echelon::data
