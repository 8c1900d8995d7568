#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/bpe/tokenizer_json.h"

namespace echelon::data {

/// Cuts words into pieces so that the sum of their scores is largest (Viterbi's algorithm). A character that
/// is no piece is unknown, at a score below all others; unknown characters in a row are one. Unchangeable.
/// Ties, and the rounding that decides near them, are those of `tokenizers`.
class UnigramPieces {
 public:
  UnigramPieces(const Vocabulary& vocab, const UnigramModel& model);

  /// Working memory of encode(); one per thread.
  class Scratch {
    friend class UnigramPieces;
    struct Piece {
      double score = 0;      // of the best way to cut the word up to the end of the piece
      std::int32_t id = -1;  // -1: no piece ends here
      std::uint32_t begin = 0;
    };
    struct Range {
      std::int32_t id = 0;
      std::uint32_t begin = 0;
      std::uint32_t end = 0;
    };
    std::vector<Piece> best;    // by where the piece ends
    std::vector<Range> chosen;  // the last one first
  };

  /// Appends the ids of `word`, valid UTF-8 of less than 2^32 bytes.
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;

 private:
  /// A beginning of pieces. The ones that are a byte longer stand in a row, in the order of that byte; where
  /// they are many, a table of all bytes says which it is.
  struct Node {
    std::uint32_t children = 0;  // the first of them, or where its table begins
    std::uint16_t count = 0;
    std::uint8_t byte = 0;
    std::int32_t id = -1;  // -1: no piece itself
  };
  [[nodiscard]] const Node* child(const Node& node, char byte) const;
  [[nodiscard]] std::int32_t id_of(std::string_view piece) const;
  void search(std::string_view word, Scratch& scratch) const;
  void choose(std::size_t size, Scratch& scratch) const;
  void add_unknown(std::string_view text, std::vector<std::int32_t>& ids) const;

  std::vector<Node> nodes_;            // the root first
  std::vector<std::uint32_t> tables_;  // 0: no child
  std::vector<double> scores_;
  double unk_score_ = 0;
  std::int32_t unk_id_;
  std::array<std::int32_t, 256> byte_ids_{};  // of "<0x00>" to "<0xFF>"; -1: not to be used
};

}  // namespace echelon::data
