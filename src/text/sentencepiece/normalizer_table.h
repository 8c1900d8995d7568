#pragma once
#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::data {

/// Returns why sentencepiece must not load this table (its form is below), or "". The library follows a table
/// without checking where it leads. So every unit that a path could lead to is checked, reached or not, with
/// the text that it points at.
[[nodiscard]] std::string normalizer_table_problem(std::string_view table);

/// Calls `rule(from, to)` for every rule of the table that a sentencepiece model carries for its normalizer.
/// The normalizer applies the longest rule whose `from` begins the rest of a text, and replaces it by `to`.
/// The table is a u32 size, a double array of that many bytes (darts-clone's) and texts that end with a zero
/// byte; all little-endian. Returns false for any other content; `rule` may have been called for some rules
/// by then.
[[nodiscard]] bool for_each_rule(std::string_view table,
                                 const std::function<void(std::string_view from, std::string_view to)>& rule);

/// A table for single look-ups. Unchangeable.
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
