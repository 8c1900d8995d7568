#pragma once
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::data {

/// Returns why sentencepiece must not load this table, which a model carries for its normalizer, or "". It is
/// a u32 size, a double array of that many bytes (darts-clone's) and texts that end with a zero byte; all
/// little-endian. The library follows a table without checking where it leads. So every unit that a path
/// could lead to is checked, reached or not, with the text that it points at.
[[nodiscard]] std::string normalizer_table_problem(std::string_view table);

/// The rules of a table, each of which replaces a text `from` by a text `to`. Unchangeable.
class NormalizerTable {
 public:
  /// normalizer_table_problem() has none with `table`.
  explicit NormalizerTable(std::string_view table);

  /// The `to` of the shortest rule whose `from` begins `text`.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view text) const;

  /// No rule replaces this byte where it stands alone.
  [[nodiscard]] bool keeps(char byte) const { return kept_[static_cast<unsigned char>(byte)]; }

 private:
  std::vector<std::uint32_t> units_;
  std::string texts_;
  std::bitset<256> kept_;
};

}  // namespace echelon::data
