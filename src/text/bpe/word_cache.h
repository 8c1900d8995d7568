#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::data {

/// Caches the ids of short words. Most text consists of few distinct words, so an encoder spends most of its
/// time here: an open-addressing hash table with contiguous words and ids. Not thread-safe.
class WordCache {
 public:
  WordCache();

  /// Appends the ids of `word`: those that are remembered, else those that `encode()` appends.
  template <class Encode>
  void append(std::string_view word, std::vector<std::int32_t>& ids, Encode&& encode) {
    if (const auto known = find(word)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return;
    }
    const std::size_t before = ids.size();
    encode();
    add(word, std::span(ids).subspan(before));
  }

  /// Longer words hardly repeat.
  static constexpr std::size_t kLongestWord = 48;

 private:
  /// The ids of `word`, until the next add(); nothing when it is not remembered.
  [[nodiscard]] std::optional<std::span<const std::int32_t>> find(std::string_view word) const;
  /// Remembers a word that find() did not know. Long words, and any once it is full, are left out.
  void add(std::string_view word, std::span<const std::int32_t> ids);

  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t word = 0;       // where it begins in words_
    std::uint32_t ids = 0;        // where they begin in ids_
    std::uint16_t word_size = 0;  // 0: free
    std::uint16_t ids_size = 0;
  };
  [[nodiscard]] std::size_t place(std::string_view word, std::uint32_t hash) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two of them, at most half in use
  std::string words_;
  std::vector<std::int32_t> ids_;
  std::size_t count_ = 0;
};

}  // namespace echelon::data
