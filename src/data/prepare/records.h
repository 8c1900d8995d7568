#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/prepare/prepare.h"
#include "data/prepare/rows.h"
#include "data/prepare/sources.h"

namespace echelon::data {

/// The wanted columns of a CSV file, found in its first row.
struct CsvColumns {
  std::size_t count = 0;
  std::size_t text = 0;
  std::size_t target = 0;  ///< pairs
};

/// One document or pair before it is checked. For text and code `row` is empty and the worker reads the
/// file.
struct Record {
  std::uint64_t index = 0;  ///< counted over all sources, good or bad
  const SourceFile* source = nullptr;
  Row row;
  std::shared_ptr<const CsvColumns> columns;  ///< csv
  bool in_parquet = false;                    ///< row.number counts rows, not lines
};

/// Between two records of the sources.
struct ReadPlace {
  std::size_t file = 0;      ///< index of the file
  std::uint64_t rows = 0;    ///< of it, behind a CSV's header
  std::uint64_t record = 0;  ///< index of the next one
};

/// Some records together, about 1 MiB of text; the unit of work of a thread.
struct RecordBatch {
  std::vector<Record> records;
  std::uint64_t bytes = 0;  ///< of source files covered
  ReadPlace end;            ///< behind the last of them
};

/// Cuts the sources into batches, in order. Not thread-safe.
class RecordReader {
 public:
  /// `files` and `options` must outlive the reader and its batches.
  RecordReader(const std::vector<SourceFile>& files, const PrepareOptions& options)
      : files_(files), options_(options) {}

  /// Empty at the end. Throws Error(kData): unreadable file; a CSV or Parquet file without the columns that
  /// are wanted. Throws as open_parquet() does.
  [[nodiscard]] std::optional<RecordBatch> next();

  /// Goes on at `place`, the end of a batch; rows before it are read again. Before the first next(). Throws
  /// as next() does.
  void skip_to(const ReadPlace& place);

 private:
  void add_file(RecordBatch& batch);
  void add_rows(RecordBatch& batch);
  void open_rows();

  const std::vector<SourceFile>& files_;
  const PrepareOptions& options_;
  ReadPlace at_;                // in the next or current file
  std::unique_ptr<Rows> rows_;  // of the current file
  std::uint64_t covered_ = 0;   // bytes of it
  std::shared_ptr<const CsvColumns> columns_;
};

/// The text of a record, or why it has none.
struct Document {
  std::string text;
  std::string target;  ///< pairs
  std::string fault;   ///< "not UTF-8 at byte 17"; empty for a good document
};

/// File and, of a row, line, or in Parquet its number.
[[nodiscard]] std::string place_of(const Record& record);

/// Returns the error that ends the work under BadRecords::kStop; `fault` begins with the record's place.
[[nodiscard]] Error bad_record_error(const std::string& fault);

/// Reads and checks one record. The source of a pair begins with options.prefix; a pair with an empty side is
/// at fault. Throws Error(kData) for a file that cannot be read or changed since it was listed.
[[nodiscard]] Document open_document(const Record& record, const PrepareOptions& options);

}  // namespace echelon::data
