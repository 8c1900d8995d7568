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
    bool ends_piece = false;
  };
  [[nodiscard]] Node child(Node parent, char byte) const {
    const Slot& slot = slots_[place(key_of(parent, byte))];
    return {slot.node >> 1, (slot.node & 1U) != 0};
  }
  [[nodiscard]] std::int32_t piece(Node node) const { return pieces_[node.number]; }

  /// All pieces together must be shorter.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 24;

 private:
  // Small, because a search goes through them without order.
  struct Slot {
    std::uint32_t key = 0;
    std::uint32_t node = 0;  // number * 2 + (does a piece end here); 0: free
  };
  [[nodiscard]] static std::uint32_t key_of(Node parent, char byte) {
    return parent.number << 8 | static_cast<unsigned char>(byte);
  }
  /// The slot of this key, or the free one where it belongs.
  [[nodiscard]] std::size_t place(std::uint32_t key) const {
    constexpr std::uint32_t kGolden = 0x9E3779B1U;
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (std::uint64_t{key} * kGolden) >> 16 & mask;
    while (slots_[at].node != 0 && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  void grow();

  std::vector<Slot> slots_;               // a power of two of them, at most half in use
  std::vector<std::int32_t> pieces_{-1};  // by number of their last node
};

}  // namespace echelon::data
