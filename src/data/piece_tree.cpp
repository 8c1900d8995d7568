#include "data/piece_tree.h"

namespace echelon::data {

PieceTree::PieceTree() : slots_(1024) {}

void PieceTree::insert(std::string_view text, std::int32_t id) {
  Node node;
  std::size_t at = 0;
  for (const char byte : text) {
    if (std::size_t{count_} * 2 >= slots_.size()) grow();
    const std::uint64_t key = key_of(node, byte);
    at = place(key);
    if (slots_[at].node.number == 0) slots_[at] = {key, {.number = ++count_}};
    node = slots_[at].node;
  }
  slots_[at].node.piece = id;
}

void PieceTree::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.node.number != 0) slots_[place(slot.key)] = slot;
  }
}

}  // namespace echelon::data
