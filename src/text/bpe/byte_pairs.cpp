#include "text/bpe/byte_pairs.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/str.h"
#include "text/bpe/byte_alphabet.h"

namespace echelon::data {
namespace {

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
}

std::size_t hash_of(std::uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15U;  // Fibonacci hashing: 2^64 / golden ratio
  return static_cast<std::size_t>(pair ^ (pair >> 29));
}

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

/// "<0x0A>" of each byte of `text`; empty when one of them is no token.
std::vector<std::int32_t> fallback_ids(const BytePairModel& model, std::string_view text) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte_at(text, i));
    const auto found = model.vocab.find(name.data());
    if (found == model.vocab.end()) return {};
    ids.push_back(found->second);
  }
  return ids;
}

}  // namespace

BytePairs::BytePairs(const BytePairModel& model, std::string_view name) : fuse_unk_(model.fuse_unk) {
  if (!model.unk_token.empty()) unk_id_ = model.vocab.at(model.unk_token);
  read_bytes(model);
  read_merges(model, name);
  if (!model.ignore_merges) return;
  for (const auto& [token, id] : model.vocab) {
    if (auto bytes = bytes_of(token)) words_.emplace(std::move(*bytes), id);
  }
}

/// A byte without a token is encoded as the fallback tokens of its character, else as the unknown token,
/// else dropped.
void BytePairs::read_bytes(const BytePairModel& model) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string character = byte_character(static_cast<unsigned char>(byte));
    const auto found = model.vocab.find(character);
    if (found != model.vocab.end()) {
      byte_ids_[byte] = {found->second};
      known_bytes_.set(byte);
    } else if (model.byte_fallback) {
      byte_ids_[byte] = fallback_ids(model, character);
    }
  }
}

void BytePairs::read_merges(const BytePairModel& model, std::string_view name) {
  std::size_t slots = 4;
  while (slots < model.merges.size() * 2) slots *= 2;
  merges_.resize(slots);
  const auto id_of = [&](const std::string& token, std::size_t rank) {
    const auto found = model.vocab.find(token);
    if (found != model.vocab.end()) return found->second;
    throw Error(Code::kData, str("tokenizer '", name, "': model.merges[", rank, "] needs the token '",
                                 printable(token), "', which model.vocab does not hold"));
  };
  for (std::size_t rank = 0; rank < model.merges.size(); ++rank) {
    const auto& [left, right] = model.merges[rank];
    const std::uint64_t pair = pair_of(id_of(left, rank), id_of(right, rank));
    std::size_t at = hash_of(pair) & (slots - 1);
    while (merges_[at].id >= 0 && merges_[at].pair != pair) at = (at + 1) & (slots - 1);
    merges_[at] = {pair, static_cast<std::uint32_t>(rank), id_of(left + right, rank)};
    note_joined(left + right);
  }
}

void BytePairs::note_joined(std::string_view token) {
  const auto bytes = bytes_of(token);
  if (!bytes) return;  // no word can contain it
  for (std::size_t i = 1; i < bytes->size(); ++i)
    // Pairs of bytes that never meet inside a token: there a word can be cut without changing its ids.
    joined_.set(byte_at(*bytes, i - 1) * 256 + byte_at(*bytes, i));
}

const BytePairs::Merge* BytePairs::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  const std::size_t mask = merges_.size() - 1;
  for (std::size_t at = hash_of(pair) & mask; merges_[at].id >= 0; at = (at + 1) & mask) {
    if (merges_[at].pair == pair) return &merges_[at];
  }
  return nullptr;
}

std::int32_t BytePairs::whole_word(std::string_view word) const {
  if (words_.empty()) return -1;
  const auto found = words_.find(std::string(word));
  return found == words_.end() ? -1 : found->second;
}

std::size_t BytePairs::part_end(std::string_view word, std::size_t begin) const {
  if (!known_bytes_.all()) return word.size();  // adjacent unknown bytes may fuse into one token
  std::size_t end = begin + 1;
  while (end < word.size() && joined_[byte_at(word, end - 1) * 256 + byte_at(word, end)]) ++end;
  return end;
}

void BytePairs::begin(std::string_view word, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  // An unknown token is held back, to fuse with following ones, until a known byte comes. Fallback tokens
  // are emitted before it, as in `tokenizers`.
  bool held = false;
  const auto release = [&] {
    if (held) symbols.push_back({unk_id_, -1, -1});
    held = false;
  };
  for (std::size_t i = 0; i < word.size(); ++i) {
    const unsigned byte = byte_at(word, i);
    const auto& ids = byte_ids_[byte];
    if (known_bytes_[byte]) release();
    for (const std::int32_t id : ids) symbols.push_back({id, -1, -1});
    if (!ids.empty() || unk_id_ < 0) continue;
    if (!fuse_unk_) release();
    held = true;
  }
  release();
  const auto count = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i < count; ++i) {
    symbols[static_cast<std::size_t>(i)].previous = i - 1;
    symbols[static_cast<std::size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }
}

/// Queues the merge of two neighbours, if there is one.
void BytePairs::consider(Scratch& scratch, std::int32_t left, std::int32_t right) const {
  if (left < 0 || right < 0) return;
  const auto& symbols = scratch.symbols;
  const Merge* merge =
      find(symbols[static_cast<std::size_t>(left)].id, symbols[static_cast<std::size_t>(right)].id);
  if (merge != nullptr) scratch.queue.push_back({merge->rank, left, merge->id});
}

void BytePairs::merge_all(Scratch& scratch) const {
  auto& [symbols, queue] = scratch;
  const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  queue.clear();
  for (std::int32_t i = 0; i + 1 < static_cast<std::int32_t>(symbols.size()); ++i)
    consider(scratch, i, i + 1);
  std::make_heap(queue.begin(), queue.end(), later);
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), later);
    const Scratch::Candidate best = queue.back();
    queue.pop_back();
    auto& symbol = symbols[static_cast<std::size_t>(best.position)];
    if (symbol.id < 0 || symbol.next < 0) continue;
    auto& right = symbols[static_cast<std::size_t>(symbol.next)];
    const Merge* merge = find(symbol.id, right.id);
    // The symbols may have changed since it was queued (entries are not removed). Another pair with the
    // same result is accepted, as in `tokenizers`.
    if (merge == nullptr || merge->id != best.id) continue;
    symbol.id = best.id;
    right.id = -1;
    symbol.next = right.next;
    if (symbol.next >= 0) symbols[static_cast<std::size_t>(symbol.next)].previous = best.position;
    for (const auto& [a, b] :
         {std::pair(symbol.previous, best.position), std::pair(best.position, symbol.next)}) {
      const std::size_t before = queue.size();
      consider(scratch, a, b);
      if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), later);
    }
  }
}

void BytePairs::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  begin(word, scratch);
  merge_all(scratch);
  for (const auto& symbol : scratch.symbols) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
}

}  // namespace echelon::data
