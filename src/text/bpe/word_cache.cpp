#include "text/bpe/word_cache.h"

#include <functional>

namespace echelon::data {
namespace {

constexpr std::size_t kFirstSlots = 256;
constexpr std::size_t kMostWords = std::size_t{1} << 17;  // with their texts some 10 MB
constexpr std::size_t kMostIds = std::size_t{1} << 22;    // 16 MB

std::uint32_t hash_of(std::string_view word) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(word));
}

}  // namespace

WordCache::WordCache() : slots_(kFirstSlots) {}

/// The slot of `word`, or the free one where it belongs.
std::size_t WordCache::place(std::string_view word, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at].word_size != 0; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && std::string_view(words_).substr(slot.word, slot.word_size) == word) break;
  }
  return at;
}

std::optional<std::span<const std::int32_t>> WordCache::find(std::string_view word) const {
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  const Slot& slot = slots_[place(word, hash_of(word))];
  if (slot.word_size == 0) return std::nullopt;
  return std::span(ids_).subspan(slot.ids, slot.ids_size);
}

void WordCache::add(std::string_view word, std::span<const std::int32_t> ids) {
  if (word.empty() || word.size() > kLongestWord || ids.size() > UINT16_MAX) return;
  if (count_ >= kMostWords || ids_.size() + ids.size() > kMostIds) return;
  if (count_ * 2 >= slots_.size()) grow();
  const std::uint32_t hash = hash_of(word);
  slots_[place(word, hash)] = {
      hash, static_cast<std::uint32_t>(words_.size()), static_cast<std::uint32_t>(ids_.size()),
      static_cast<std::uint16_t>(word.size()), static_cast<std::uint16_t>(ids.size())};
  words_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++count_;
}

void WordCache::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.word_size == 0) continue;
    const auto word = std::string_view(words_).substr(slot.word, slot.word_size);
    slots_[place(word, slot.hash)] = slot;
  }
}

}  // namespace echelon::data
