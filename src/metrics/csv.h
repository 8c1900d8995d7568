#pragma once
#include <compare>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "metrics/line.h"

/// Lines as comma-separated values (RFC 4180, with line feeds): a heading, then one row for each line; a cell
/// without a number is empty.
namespace echelon::metrics {

inline constexpr std::size_t kMostColumns = 4096;

/// The columns of a file: step and time, then the tags with a name in Prometheus in that order, then the
/// others by name. Throws Error(kUsage) above kMostColumns.
class CsvColumns {
 public:
  /// Takes in the tags of a line.
  void add(const Line& line);
  /// Returns whether the tags of this line are among the columns.
  [[nodiscard]] bool cover(const Line& line) const;
  [[nodiscard]] std::string heading() const;
  [[nodiscard]] std::string row(const Line& line) const;

 private:
  struct Column {
    std::size_t name;  ///< its place in the table of names
    std::string tag;
    auto operator<=>(const Column&) const = default;
  };
  std::vector<Column> columns_;                      ///< in order
  std::unordered_map<std::string, std::size_t> at_;  ///< by tag: index in columns_
};

/// The whole file, piece by piece; nothing if it has no line of metrics. `columns`: receives those of the
/// file.
LineCounts write_csv(const std::filesystem::path& file, CsvColumns& columns,
                     const std::function<void(std::string_view)>& write);

}  // namespace echelon::metrics
