#pragma once
#include <cstdint>
#include <string>

#include "data/prepare/csv_row.h"
#include "data/prepare/source_stream.h"

namespace echelon::data {

/// A line of a JSONL file, or a row of a CSV file, which may have several lines.
struct Row {
  std::string text;        ///< without its newline
  std::uint64_t line = 0;  ///< where it begins, from 1
  std::string fault;       ///< why it has no text; empty for a good one
};

/// The rows of a source file, in order; a byte order mark at its start is left out. Not thread-safe.
class RowStream {
 public:
  enum class Kind { kLines, kCsv };

  /// A longer row is a fault, and reading goes on with the next line.
  static constexpr std::uint64_t kLongestRow = std::uint64_t{64} << 20;

  RowStream(const SourceFile& file, Kind kind) : stream_(file), kind_(kind) {}

  /// False at the end. Throws Error(kData) as SourceStream does.
  [[nodiscard]] bool next(Row& row);

  /// Bytes of the file used so far.
  [[nodiscard]] std::uint64_t position() const { return stream_.position(); }

 private:
  bool fill();
  void take(std::size_t size, std::size_t newline, Row& row);
  void skip_line();

  SourceStream stream_;
  Kind kind_;
  std::string pending_;  // bytes read, not yet given
  std::size_t at_ = 0;   // where the next row begins in it
  std::uint64_t line_ = 1;
  bool begun_ = false;
};

}  // namespace echelon::data
