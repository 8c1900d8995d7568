#pragma once
#include <arrow/record_batch.h>
#include <parquet/arrow/reader.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/parquet/json_text.h"
#include "data/prepare/parquet_rows.h"

namespace echelon::data {

/// The rows of a Parquet file. Its row groups are read one after the other and in parts, so that memory holds
/// a page of each column and the part.
class ParquetFile final : public Rows {
 public:
  /// As OpenParquet.
  ParquetFile(int fd, const SourceFile& file, const std::vector<WantedColumn>& columns);

  [[nodiscard]] bool next(Row& row) override;
  [[nodiscard]] std::uint64_t position() const override;

 private:
  void open(int fd);
  void find_columns(const std::vector<WantedColumn>& columns);
  void find_column(const arrow::Schema& schema, const WantedColumn& wanted);
  bool fill();
  void open_group();
  void read_at_once(std::int64_t most_rows);
  void close_group();
  std::string row_text();
  [[noreturn]] void refuse(const std::string& why) const;
  [[noreturn]] void refuse_content(const std::string& why) const;
  void check(const arrow::Status& status) const;
  template <class Body>
  auto guarded(Body&& body) const;

  const SourceFile& file_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int> leaves_;                          // of the wanted columns, as the file counts them
  int group_ = -1;                                   // the current row group
  std::unique_ptr<arrow::RecordBatchReader> parts_;  // of it
  std::int64_t group_rows_ = 0;                      // read of it
  std::int64_t row_bytes_ = 0;                       // of its longer rows, about
  std::shared_ptr<arrow::RecordBatch> part_;
  std::int64_t at_ = 0;          // of the next row in it
  std::int64_t part_bytes_ = 0;  // of its rows' texts
  std::uint64_t number_ = 0;     // of the last row
  JsonText json_;
};

}  // namespace echelon::data
