#include "text/text_pieces.h"

#include <algorithm>

namespace echelon::data {
namespace {

/// Joins a piece to the one before it where `joins(piece, the one before it is a match)`.
template <class Joins>
std::vector<TextPiece> join_pieces(const std::vector<TextPiece>& pieces, Joins&& joins) {
  std::vector<TextPiece> joined;
  bool after_match = false;
  for (const TextPiece& piece : pieces) {
    if (!joined.empty() && joins(piece.is_match, after_match)) {
      joined.back().begin = std::min(joined.back().begin, piece.begin);
      joined.back().end = std::max(joined.back().end, piece.end);
    } else {
      joined.push_back(piece);
    }
    after_match = piece.is_match;
  }
  return joined;
}

}  // namespace

std::vector<TextPiece> apply_behavior(SplitBehavior behavior, const std::vector<TextPiece>& pieces) {
  const auto first_of_matches = [](bool is_match, bool after_match) { return is_match && !after_match; };
  std::vector<TextPiece> result = pieces;
  switch (behavior) {
    case SplitBehavior::kIsolated: break;
    case SplitBehavior::kRemoved:
      std::erase_if(result, [](const TextPiece& piece) { return piece.is_match; });
      break;
    case SplitBehavior::kMergedWithPrevious: result = join_pieces(pieces, first_of_matches); break;
    case SplitBehavior::kMergedWithNext:
      std::ranges::reverse(result);
      result = join_pieces(result, first_of_matches);
      std::ranges::reverse(result);
      break;
    case SplitBehavior::kContiguous:
      result = join_pieces(pieces, [](bool is_match, bool after_match) { return is_match == after_match; });
      break;
  }
  return result;
}

}  // namespace echelon::data
