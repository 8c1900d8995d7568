#pragma once
#include <cstdint>
#include <string>

namespace echelon::data {

/// A line of a JSONL file or an element of its array, or a row of a CSV file, which may have several lines,
/// or of a Parquet file, as the line of JSONL that it would be.
struct Row {
  std::string text;          ///< without its newline
  std::uint64_t number = 0;  ///< of the line where it begins, or of the row, from 1
  std::string fault;         ///< why it has no text; empty for a good one
};

/// The rows of a source file, in order. Not thread-safe.
class Rows {
 public:
  /// A longer row is a fault, and reading goes on with the next one.
  static constexpr std::uint64_t kLongestRow = std::uint64_t{64} << 20;

  virtual ~Rows() = default;

  /// False at the end. Throws Error(kData) naming the file: unreadable, damaged, changed since it was listed.
  [[nodiscard]] virtual bool next(Row& row) = 0;

  /// Bytes of the file used so far.
  [[nodiscard]] virtual std::uint64_t position() const = 0;
};

}  // namespace echelon::data
