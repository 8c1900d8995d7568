#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/bpe/tokenizer_json.h"

namespace echelon::data {

/// Byte-pair encoding of words: of all pairs of neighbors that merge, the one of the lowest rank (and of
/// these the leftmost) becomes one symbol, until none merges. A word begins as its letters: bytes, which the
/// vocabulary writes in the alphabet of byte_alphabet.h, or characters. Unchangeable.
class BytePairs {
 public:
  enum class Letters { kBytes, kCharacters };

  /// Throws Error(kData): a merge of tokens that the vocabulary does not hold. `name` is for messages.
  BytePairs(const Vocabulary& vocab, const BytePairModel& model, Letters letters, std::string_view name);

  /// Working memory of encode(); one per thread.
  class Scratch {
    friend class BytePairs;
    struct Symbol {
      std::int32_t id = 0;  // -1: merged into its left neighbor
      std::int32_t previous = -1;
      std::int32_t next = -1;
    };
    struct Candidate {
      std::uint32_t rank = 0;
      std::int32_t position = 0;
      std::int32_t id = 0;  // of the merged symbol
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;
  };

  /// Appends the ids of `word`, which has less than 2^31 bytes and is valid UTF-8 where letters are
  /// characters.
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;

  /// Returns the id of a word that is looked up whole before anything merges (ignore_merges); -1: it merges.
  [[nodiscard]] std::int32_t whole_word(std::string_view word) const;

  /// The first place behind `begin` where `word` can be cut without changing its ids: no merge spans it.
  [[nodiscard]] std::size_t part_end(std::string_view word, std::size_t begin) const;

 private:
  struct Merge {
    std::uint64_t pair = 0;  // left id, right id
    std::uint32_t rank = 0;
    std::int32_t id = -1;  // -1: free
  };
  struct Letter {
    std::uint32_t code = 0;  // the byte, or the character's code point
    std::size_t size = 1;    // bytes
  };
  void read_letters(const Vocabulary& vocab);
  void read_merges(const Vocabulary& vocab, const BytePairModel& model, std::string_view name);
  void note_joined(std::string_view token);
  [[nodiscard]] Letter letter_at(std::string_view word, std::size_t at) const;
  [[nodiscard]] std::int32_t id_of(std::uint32_t letter) const;
  [[nodiscard]] bool add_fallback(std::string_view letter, Scratch& scratch) const;
  [[nodiscard]] const Merge* find(std::int32_t left, std::int32_t right) const;
  void begin(std::string_view word, Scratch& scratch) const;
  void merge_all(Scratch& scratch) const;
  void consider(Scratch& scratch, std::int32_t left, std::int32_t right) const;

  Letters letters_;
  std::vector<std::int32_t> letter_ids_;          // by code; -1: not in the vocabulary
  std::array<std::int32_t, 256> fallback_ids_{};  // of "<0x00>" to "<0xFF>"; -1: not to be used
  std::int32_t unk_id_ = -1;
  bool fuse_unk_ = false;
  std::vector<Merge> merges_;  // an open hash table, at most half in use
  std::vector<bool> joined_;   // [joined_place(a, b)]: some merge joins letter a and letter b behind it
  std::unordered_map<std::string, std::int32_t> words_;  // with ignore_merges
};

}  // namespace echelon::data
