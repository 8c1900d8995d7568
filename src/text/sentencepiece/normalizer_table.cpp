#include "text/sentencepiece/normalizer_table.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/files/bytes.h"
#include "base/str.h"
#include "text/utf8.h"

namespace echelon::data {
namespace {

/// One unit of the array: a node, or the value of the node that points to it.
struct Unit {
  std::uint32_t bits = 0;
  [[nodiscard]] std::uint32_t label() const { return bits & 0x800000FFU; }  // of a value: never a byte
  [[nodiscard]] bool has_value() const { return (bits >> 8 & 1U) != 0; }
  [[nodiscard]] std::uint32_t value() const { return bits & 0x7FFFFFFFU; }
  [[nodiscard]] std::uint32_t offset() const { return (bits >> 10) << ((bits & (1U << 9)) >> 6); }
};

/// The parts of a table.
struct Parts {
  std::vector<Unit> units;
  std::string_view texts;
};

std::optional<Parts> parts_of(std::string_view table) {
  if (table.size() < 4) return std::nullopt;
  const auto bytes = std::as_bytes(std::span(table));
  const std::size_t array_bytes = get<std::uint32_t>(bytes, 0);
  if (array_bytes % 4 != 0 || array_bytes == 0 || array_bytes > table.size() - 4) return std::nullopt;
  Parts parts{std::vector<Unit>(array_bytes / 4), table.substr(4 + array_bytes)};
  for (std::size_t i = 0; i < parts.units.size(); ++i)
    parts.units[i].bits = get<std::uint32_t>(bytes, 4 + 4 * i);
  return parts;
}

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

// The library has room for this many on its stack and does not check.
constexpr std::uint32_t kMostRulesOnAPath = 32;
constexpr std::size_t kLongestText = 4096;  // its own have 66 bytes; every byte of a document may become one

/// Visits every row of children once, even if several nodes share it, and finds the path with the most
/// rules.
class PathWalk {
 public:
  explicit PathWalk(const std::vector<Unit>& units) : units_(units), children_(units), rows_(units.size()) {}

  /// The most rules on a path from the root, or nothing if there is a cycle.
  std::optional<std::uint32_t> most_rules() {
    const std::uint32_t root = units_[0].offset();
    std::vector<std::uint32_t> open{root};
    while (!open.empty()) {
      const std::uint32_t row = open.back();
      if (rows_[row].step != Step::kNew) {  // all below it is done; or another path came by before
        if (rows_[row].step == Step::kOpen) finish(row);
        open.pop_back();
        continue;
      }
      rows_[row].step = Step::kOpen;
      if (row == units_[0].label()) return std::nullopt;  // the root is a child
      for (const std::uint32_t child : children_of(row)) {
        const Row& below = rows_[row_of(child)];
        if (below.step == Step::kOpen) return std::nullopt;
        if (below.step == Step::kNew) open.push_back(row_of(child));
      }
    }
    return rows_[root].rules;
  }

 private:
  enum class Step : std::uint8_t { kNew, kOpen, kDone };
  struct Row {
    Step step = Step::kNew;
    std::uint32_t rules = 0;  // most rules on a path that begins with one of the children
  };
  [[nodiscard]] std::uint32_t row_of(std::uint32_t unit) const { return unit ^ units_[unit].offset(); }
  [[nodiscard]] std::span<const std::uint32_t> children_of(std::uint32_t row) const {
    const std::uint32_t begin = children_.first[row];
    return std::span(children_.units).subspan(begin, children_.first[row + 1] - begin);
  }
  void finish(std::uint32_t row) {
    std::uint32_t most = 0;
    for (const std::uint32_t child : children_of(row)) {
      most = std::max(most, rows_[row_of(child)].rules + (units_[child].has_value() ? 1U : 0U));
    }
    rows_[row] = {Step::kDone, most};
  }

  const std::vector<Unit>& units_;
  Children children_;
  std::vector<Row> rows_;
};

}  // namespace

std::string normalizer_table_problem(std::string_view table) {
  const auto parts = parts_of(table);
  if (!parts) return "it does not have the size that it states";
  const auto& [units, texts] = *parts;
  // The library reads the child of any byte before it checks that there is one, so a whole row of 256 must
  // be readable.
  if (units.size() % 256 != 0) return "its array is truncated";
  if (texts.empty() || texts.back() != '\0') return "its texts have no end";
  for (std::size_t at = 0; at < units.size(); ++at) {
    if (at != 0 && units[at].label() > 255) continue;  // a value: no path leads here
    const std::size_t children = at ^ units[at].offset();
    if (children >= units.size()) return str("unit ", at, " points outside its array");
    if (at == 0 || !units[at].has_value()) continue;
    const std::size_t begin = units[children].value();
    if (begin >= texts.size()) return str("unit ", at, " points outside its texts");
    // Not searched beyond the longest text: many units may point into a long one.
    const std::string_view text = texts.substr(begin, kLongestText + 1);
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos)
      return str("the text of unit ", at, " has more than ", kLongestText, " bytes");
    if (find_invalid_utf8(text.substr(0, end)) != std::string_view::npos)
      return str("the text of unit ", at, " is not valid UTF-8");
  }
  const auto most = PathWalk(units).most_rules();
  if (!most) return "its array has a cycle";
  if (*most > kMostRulesOnAPath)
    return str("more than ", kMostRulesOnAPath, " of its rules begin one another");
  return "";
}

NormalizerTable::NormalizerTable(std::string_view table) {
  const auto parts = parts_of(table).value();
  for (const Unit unit : parts.units) units_.push_back(unit.bits);
  texts_ = parts.texts;
  for (unsigned byte = 0; byte < kept_.size(); ++byte) {
    const auto c = static_cast<char>(byte);
    kept_[byte] = !find({&c, 1});
  }
}

std::optional<std::string_view> NormalizerTable::find(std::string_view text) const {
  std::size_t node = Unit{units_[0]}.offset();
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;  // `tokenizers` ends the text there
    node ^= byte;
    const Unit unit{units_[node]};
    if (unit.label() != byte) return std::nullopt;
    node ^= unit.offset();
    if (unit.has_value()) return texts_.c_str() + Unit{units_[node]}.value();
  }
  return std::nullopt;
}

}  // namespace echelon::data
