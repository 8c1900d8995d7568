#include "text/sentencepiece/piece_tree.h"

namespace echelon::data {

PieceTree::PieceTree() : slots_(1024) {}

void PieceTree::insert(std::string_view text, std::int32_t id) {
  Node node;
  std::size_t at = 0;
  for (const char byte : text) {
    if (pieces_.size() * 2 >= slots_.size()) grow();
    const std::uint32_t key = key_of(node, byte);
    at = place(key);
    if (slots_[at].node == 0) {
      slots_[at] = {key, static_cast<std::uint32_t>(pieces_.size()) << 1};
      pieces_.push_back(-1);
    }
    node = {slots_[at].node >> 1};
  }
  slots_[at].node |= 1U;
  pieces_[node.number] = id;
}

void PieceTree::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.node != 0) slots_[place(slot.key)] = slot;
  }
}

}  // namespace echelon::data
