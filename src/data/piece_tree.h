#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace echelon::data {

/// Finds all pieces that begin at some place of a text, byte by byte.
class PieceTree {
 public:
  PieceTree();

  /// `text` must not be empty.
  void insert(std::string_view text, std::int32_t id);

  struct Node {
    std::uint32_t number = 0;  // 0: the root; as a child: there is none
    std::int32_t piece = -1;   // that ends here; -1: none
  };
  [[nodiscard]] Node child(Node parent, char byte) const { return slots_[place(key_of(parent, byte))].node; }

 private:
  struct Slot {
    std::uint64_t key = 0;
    Node node;  // number 0: free
  };
  [[nodiscard]] static std::uint64_t key_of(Node parent, char byte) {
    return std::uint64_t{parent.number} << 8 | static_cast<unsigned char>(byte);
  }
  /// The slot of this key, or the free one where it belongs.
  [[nodiscard]] std::size_t place(std::uint64_t key) const {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (key * kGolden) >> 32 & mask;
    while (slots_[at].node.number != 0 && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  void grow();

  std::vector<Slot> slots_;  // a power of two of them, at most half in use
  std::uint32_t count_ = 0;
};

}  // namespace echelon::data
