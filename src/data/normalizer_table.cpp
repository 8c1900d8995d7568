#include "data/normalizer_table.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace echelon::data {
namespace {

std::uint32_t u32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

/// One unit of the array: a node, or the value of the node that points to it.
struct Unit {
  std::uint32_t bits = 0;
  [[nodiscard]] std::uint32_t label() const { return bits & 0x800000FFU; }  // of a value: never a byte
  [[nodiscard]] bool has_value() const { return (bits >> 8 & 1U) != 0; }
  [[nodiscard]] std::uint32_t value() const { return bits & 0x7FFFFFFFU; }
  [[nodiscard]] std::uint32_t offset() const { return (bits >> 10) << ((bits & (1U << 9)) >> 6); }
};

// Nodes may be shared, so a damaged array may go in circles. sentencepiece's own tables lead to 300,000.
constexpr std::size_t kMostNodes = 4'000'000;
constexpr std::size_t kLongestRule = 1000;

/// Units by the node whose children they are: those of `base`, where a node says that its children are,
/// are units[first[base]] to units[first[base + 1] - 1].
struct Children {
  explicit Children(const std::vector<Unit>& all) : first((all.size() | 255U) + 2) {
    for (std::size_t at = 1; at < all.size(); ++at) {
      if (all[at].label() < 256) ++first[(at ^ all[at].label()) + 1];
    }
    std::partial_sum(first.begin(), first.end(), first.begin());
    units.resize(first.back());
    std::vector<std::uint32_t> next = first;
    for (std::size_t at = 1; at < all.size(); ++at) {
      if (all[at].label() < 256) units[next[at ^ all[at].label()]++] = static_cast<std::uint32_t>(at);
    }
  }
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> units;
};

struct Node {
  std::size_t children = 0;  // the child of byte c is the unit at children ^ c, if c is its label
  std::size_t depth = 0;
  char label = 0;
};

}  // namespace

bool for_each_rule(std::string_view table,
                   const std::function<void(std::string_view from, std::string_view to)>& rule) {
  if (table.size() < 4) return false;
  const std::size_t array_bytes = u32_at(table, 0);
  if (array_bytes % 4 != 0 || array_bytes == 0 || array_bytes > table.size() - 4) return false;
  const std::string_view texts = table.substr(4 + array_bytes);
  std::vector<Unit> units(array_bytes / 4);
  for (std::size_t i = 0; i < units.size(); ++i) units[i].bits = u32_at(table, 4 + 4 * i);

  const Children children_of(units);
  std::string from;
  std::size_t nodes = 0;
  std::vector<Node> open{{.children = units[0].offset()}};
  while (!open.empty()) {
    const Node node = open.back();
    open.pop_back();
    if (node.depth > 0) {
      from.resize(node.depth - 1);
      from += node.label;
    }
    if (node.children + 1 >= children_of.first.size()) continue;
    for (std::uint32_t i = children_of.first[node.children]; i < children_of.first[node.children + 1]; ++i) {
      const std::size_t at = children_of.units[i];
      const Unit unit = units[at];
      const auto byte = static_cast<char>(unit.label());
      if (++nodes > kMostNodes || node.depth >= kLongestRule) return false;
      const std::size_t children = at ^ unit.offset();
      if (unit.has_value()) {
        if (children >= units.size()) return false;
        const std::size_t begin = units[children].value();
        if (begin >= texts.size()) return false;
        const std::size_t end = texts.find('\0', begin);
        if (end == std::string_view::npos) return false;
        from.resize(node.depth);
        from += byte;
        rule(from, texts.substr(begin, end - begin));
      }
      open.push_back({children, node.depth + 1, byte});
    }
  }
  return true;
}

}  // namespace echelon::data
