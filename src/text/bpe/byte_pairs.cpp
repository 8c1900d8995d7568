#include "text/bpe/byte_pairs.h"

#include <unicode/utf8.h>

#include <algorithm>

#include "base/error.h"
#include "base/foreign_text.h"
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

constexpr std::size_t kJoinedPlaces = std::size_t{1} << 20;

/// Pairs of letters that share a place only make parts longer.
std::size_t joined_place(std::uint32_t left, std::uint32_t right) {
  return (std::size_t{left} * 256 + right) % kJoinedPlaces;
}

std::uint32_t code_of(std::string_view character) {
  std::int32_t code = 0;
  U8_GET_UNSAFE(reinterpret_cast<const std::uint8_t*>(character.data()), 0, code);
  return static_cast<std::uint32_t>(code);
}

}  // namespace

BytePairs::BytePairs(const Vocabulary& vocab, const BytePairModel& model, Letters letters,
                     std::string_view name)
    : letters_(letters), fuse_unk_(model.fuse_unk), joined_(kJoinedPlaces) {
  if (!model.unk_token.empty()) unk_id_ = vocab.at(model.unk_token);
  read_letters(vocab);
  fallback_ids_.fill(-1);
  if (model.byte_fallback) fallback_ids_ = ids_of_bytes(vocab);
  read_merges(vocab, model, name);
  if (!model.ignore_merges) return;
  for (const auto& [token, id] : vocab) {
    if (letters_ == Letters::kCharacters) {
      words_.emplace(token, id);
    } else if (auto bytes = bytes_of(token)) {
      words_.emplace(std::move(*bytes), id);
    }
  }
}

void BytePairs::read_letters(const Vocabulary& vocab) {
  const auto set = [&](std::uint32_t code, std::int32_t id) {
    if (code >= letter_ids_.size()) letter_ids_.resize(code + std::size_t{1}, -1);
    letter_ids_[code] = id;
  };
  for (const auto& [token, id] : vocab) {
    if (token.empty() || utf8_length(std::string_view(token).substr(0, 4)) != token.size()) continue;
    if (letters_ == Letters::kCharacters) {
      set(code_of(token), id);
    } else if (const auto byte = bytes_of(token)) {
      set(static_cast<unsigned char>(byte->front()), id);
    }
  }
}

BytePairs::Letter BytePairs::letter_at(std::string_view word, std::size_t at) const {
  const auto byte = static_cast<unsigned char>(word[at]);
  if (letters_ == Letters::kBytes || byte < 0x80) return {byte, 1};
  const std::size_t size = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  return {code_of(word.substr(at, size)), size};
}

std::int32_t BytePairs::id_of(std::uint32_t letter) const {
  return letter < letter_ids_.size() ? letter_ids_[letter] : -1;
}

/// Returns whether every byte of `letter`, as the vocabulary writes it, has a token to fall back to.
bool BytePairs::add_fallback(std::string_view letter, Scratch& scratch) const {
  const auto id_at = [&](std::size_t i) { return fallback_ids_[static_cast<unsigned char>(letter[i])]; };
  for (std::size_t i = 0; i < letter.size(); ++i) {
    if (id_at(i) < 0) return false;
  }
  for (std::size_t i = 0; i < letter.size(); ++i) scratch.symbols.push_back({id_at(i), -1, -1});
  return true;
}

void BytePairs::read_merges(const Vocabulary& vocab, const BytePairModel& model, std::string_view name) {
  std::size_t slots = 4;
  while (slots < model.merges.size() * 2) slots *= 2;
  merges_.resize(slots);
  const auto id_of = [&](const std::string& token, std::size_t rank) {
    const auto found = vocab.find(token);
    if (found != vocab.end()) return found->second;
    throw Error(Code::kData, "tokenizer '", name, "': model.merges[", rank, "] needs the token '",
                printable(token), "', which model.vocab does not hold");
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

/// Between letters that never meet inside a token a word can be cut without changing its ids.
void BytePairs::note_joined(std::string_view token) {
  std::string bytes;
  if (letters_ == Letters::kBytes) {
    auto word = bytes_of(token);
    if (!word) return;  // no word can contain it
    token = bytes = std::move(*word);
  }
  for (std::size_t at = 0; at < token.size();) {
    const Letter left = letter_at(token, at);
    at += left.size;
    if (at < token.size()) joined_[joined_place(left.code, letter_at(token, at).code)] = true;
  }
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
  Letter left = letter_at(word, begin);
  for (std::size_t end = begin + left.size; end < word.size();) {
    const Letter right = letter_at(word, end);
    // Neighbors that are unknown may fuse into one token, and bytes to fall back to have merges of their
    // own.
    const bool known = id_of(left.code) >= 0 && id_of(right.code) >= 0;
    if (known && !joined_[joined_place(left.code, right.code)]) return end;
    end += right.size;
    left = right;
  }
  return word.size();
}

void BytePairs::begin(std::string_view word, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  // An unknown token is held back, to fuse with following ones, until a known letter comes. Fallback tokens
  // are emitted before it, as in `tokenizers`. Without an unknown token such letters are dropped.
  bool held = false;
  const auto release = [&] {
    if (held) symbols.push_back({unk_id_, -1, -1});
    held = false;
  };
  for (std::size_t at = 0; at < word.size();) {
    const Letter letter = letter_at(word, at);
    const std::string_view text = word.substr(at, letter.size);
    at += letter.size;
    if (const std::int32_t id = id_of(letter.code); id >= 0) {
      release();
      symbols.push_back({id, -1, -1});
      continue;
    }
    const bool fell_back = letters_ == Letters::kBytes
                               ? add_fallback(byte_character(static_cast<unsigned char>(text[0])), scratch)
                               : add_fallback(text, scratch);
    if (fell_back || unk_id_ < 0) continue;
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

/// Queues the merge of two neighbors, if there is one.
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
