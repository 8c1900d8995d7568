#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "data/prepare/csv_row.h"
#include "data/prepare/rows.h"
#include "data/prepare/source_stream.h"

namespace echelon::data {

/// Finds the end of an element of a JSON array, which may come in several parts.
class JsonElementEnd {
 public:
  /// Returns the offset of the comma behind the element or of the bracket that closes the array, or npos if
  /// neither is in `part`. `part` continues the part before. No string of JSON has a line end, so a quote
  /// that is never closed spoils its element and the next one at most.
  [[nodiscard]] std::size_t find(std::string_view part);

 private:
  std::size_t depth_ = 0;  // of objects and arrays within the element
  bool in_string_ = false;
  bool escaped_ = false;
};

/// The rows of a file of text; a byte order mark at its start is left out. Of lines of JSON that begin with
/// an array, its elements are rows, too.
class RowStream final : public Rows {
 public:
  enum class Kind { kLines, kCsv };

  RowStream(const SourceFile& file, Kind kind) : stream_(file), kind_(kind) {}

  [[nodiscard]] bool next(Row& row) override;
  [[nodiscard]] std::uint64_t position() const override { return stream_.position(); }

 private:
  struct RowEnd;

  bool fill();
  void begin();
  void skip(std::size_t size);
  void pass_end(std::size_t size);
  void skip_blank();
  void skip_row(std::size_t end, RowEnd& row_end);

  SourceStream stream_;
  Kind kind_;
  bool in_array_ = false;
  std::string pending_;  // bytes read, not yet given
  std::size_t at_ = 0;   // where the next row begins in it
  std::uint64_t line_ = 1;
  bool begun_ = false;
};

}  // namespace echelon::data
