#pragma once
#include <cstdint>
#include <string>

#include "data/prepare/csv_row.h"
#include "data/prepare/rows.h"
#include "data/prepare/source_stream.h"

namespace echelon::data {

/// The rows of a file of text; a byte order mark at its start is left out.
class RowStream final : public Rows {
 public:
  enum class Kind { kLines, kCsv };

  RowStream(const SourceFile& file, Kind kind) : stream_(file), kind_(kind) {}

  [[nodiscard]] bool next(Row& row) override;
  [[nodiscard]] std::uint64_t position() const override { return stream_.position(); }

 private:
  bool fill();
  void take(std::size_t size, std::size_t newline, Row& row);
  void skip_row(std::size_t end, CsvRowEnd& csv);
  void skip_line();

  SourceStream stream_;
  Kind kind_;
  std::string pending_;  // bytes read, not yet given
  std::size_t at_ = 0;   // where the next row begins in it
  std::uint64_t line_ = 1;
  bool begun_ = false;
};

}  // namespace echelon::data
