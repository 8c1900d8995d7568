#include "text/unigram/unigram_pieces.h"

#include <unicode/utf8.h>

#include <algorithm>
#include <utility>

namespace echelon::data {
namespace {

/// How far an unknown character is below the lowest score.
constexpr double kUnknownPenalty = 10;

/// Children that are looked through one after the other.
constexpr std::uint16_t kMostInARow = 6;

using NamedId = std::pair<std::string_view, std::int32_t>;

/// Pieces that share their first `depth` bytes, which are those of `node`.
struct Row {
  std::size_t node = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t depth = 0;
};

std::uint8_t unsigned_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

}  // namespace

UnigramPieces::UnigramPieces(const Vocabulary& vocab, const UnigramModel& model)
    : nodes_(1), scores_(model.scores), unk_id_(model.unk_id) {
  unk_score_ = *std::ranges::min_element(scores_) - kUnknownPenalty;
  byte_ids_.fill(-1);
  if (model.byte_fallback) byte_ids_ = ids_of_bytes(vocab);
  std::vector<NamedId> pieces(vocab.begin(), vocab.end());
  std::ranges::sort(pieces);
  std::vector<Row> open{{.end = pieces.size()}};
  while (!open.empty()) {
    auto [node, begin, end, depth] = open.back();
    open.pop_back();
    if (pieces[begin].first.size() == depth) nodes_[node].id = pieces[begin++].second;
    nodes_[node].children = static_cast<std::uint32_t>(nodes_.size());
    while (begin < end) {
      const std::uint8_t byte = unsigned_at(pieces[begin].first, depth);
      const auto next = std::partition_point(
          pieces.begin() + static_cast<std::ptrdiff_t>(begin),
          pieces.begin() + static_cast<std::ptrdiff_t>(end),
          [&, depth = depth](const NamedId& piece) { return unsigned_at(piece.first, depth) <= byte; });
      const auto row_end = static_cast<std::size_t>(next - pieces.begin());
      ++nodes_[node].count;
      open.push_back({nodes_.size(), begin, row_end, depth + 1});
      nodes_.push_back({.byte = byte});
      begin = row_end;
    }
  }
  for (Node& node : nodes_) {
    if (node.count <= kMostInARow) continue;
    const auto table = static_cast<std::uint32_t>(tables_.size());
    tables_.resize(table + 256);
    for (std::uint32_t at = node.children; at < node.children + node.count; ++at)
      tables_[table + nodes_[at].byte] = at;
    node.children = table;
  }
}

const UnigramPieces::Node* UnigramPieces::child(const Node& node, char byte) const {
  const auto wanted = static_cast<std::uint8_t>(byte);
  if (node.count > kMostInARow) {
    const std::uint32_t found = tables_[node.children + wanted];
    return found == 0 ? nullptr : &nodes_[found];
  }
  for (std::uint32_t at = node.children; at < node.children + node.count; ++at) {
    if (nodes_[at].byte == wanted) return &nodes_[at];
  }
  return nullptr;
}

std::int32_t UnigramPieces::id_of(std::string_view piece) const {
  const Node* node = nodes_.data();
  for (std::size_t at = 0; at < piece.size() && node != nullptr; ++at) node = child(*node, piece[at]);
  return node == nullptr ? -1 : node->id;
}

/// Finds the best piece that ends at each place.
void UnigramPieces::search(std::string_view word, Scratch& scratch) const {
  auto& best = scratch.best;
  best.assign(word.size() + 1, {});
  for (std::size_t begin = 0; begin < word.size();) {
    const double before = best[begin].score;
    const auto offer = [&](std::size_t end, double score, std::int32_t id) {
      if (best[end].id < 0 || before + score > best[end].score)
        best[end] = {before + score, id, static_cast<std::uint32_t>(begin)};
    };
    std::size_t next = begin;
    U8_FWD_1_UNSAFE(word.data(), next);
    bool is_known = false;  // the character itself
    const Node* node = nodes_.data();
    for (std::size_t end = begin; end < word.size();) {
      node = child(*node, word[end]);
      if (node == nullptr) break;
      ++end;
      if (node->id < 0) continue;
      offer(end, scores_[static_cast<std::size_t>(node->id)], node->id);
      if (end == next) is_known = true;
    }
    if (!is_known) offer(next, unk_score_, unk_id_);
    begin = next;
  }
}

/// Follows the best pieces from the end.
void UnigramPieces::choose(std::size_t size, Scratch& scratch) const {
  auto& chosen = scratch.chosen;
  chosen.clear();
  for (auto end = static_cast<std::uint32_t>(size); end > 0; end = scratch.best[end].begin) {
    const auto& piece = scratch.best[end];
    if (piece.id == unk_id_ && !chosen.empty() && chosen.back().id == unk_id_) {
      chosen.back().begin = piece.begin;
    } else {
      chosen.push_back({piece.id, piece.begin, end});
    }
  }
}

void UnigramPieces::add_unknown(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  for (const char byte : text) {
    const std::int32_t id = byte_ids_[static_cast<std::uint8_t>(byte)];
    if (id < 0) {
      ids.resize(before);
      ids.push_back(unk_id_);
      return;
    }
    ids.push_back(id);
  }
}

void UnigramPieces::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  search(word, scratch);
  choose(word.size(), scratch);
  for (auto range = scratch.chosen.rbegin(); range != scratch.chosen.rend(); ++range) {
    if (range->id != unk_id_) {
      ids.push_back(range->id);
      continue;
    }
    const std::string_view text = word.substr(range->begin, range->end - range->begin);
    const std::int32_t known = id_of(text);  // fused characters, or the name of the unknown token
    if (known >= 0) {
      ids.push_back(known);
    } else {
      add_unknown(text, ids);
    }
  }
}

}  // namespace echelon::data
