#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fs.h"
#include "data/prepare.h"
#include "data/sources.h"

namespace echelon::data {

/// One document before it is looked at. For text and code `text` is empty and the worker reads the file.
struct Record {
  std::uint64_t index = 0;  ///< counted over all sources, good or bad
  const SourceFile* source = nullptr;
  std::uint64_t line = 0;  ///< jsonl: from 1
  std::string text;
};

/// Some records together, about 1 MiB of text; the unit of work of a thread.
struct RecordBatch {
  std::vector<Record> records;
  std::uint64_t bytes = 0;  ///< of source files covered
};

/// Cuts the sources into batches, in order. Not thread-safe.
class RecordReader {
 public:
  /// `files` must outlive the reader and its batches.
  RecordReader(const std::vector<SourceFile>& files, TextFormat format) : files_(files), format_(format) {}

  /// Empty at the end. Throws Error(kData): unreadable file, a line above 1 GiB.
  [[nodiscard]] std::optional<RecordBatch> next();

 private:
  void add_file(RecordBatch& batch);
  void add_lines(RecordBatch& batch);
  bool fill();

  const std::vector<SourceFile>& files_;
  TextFormat format_;
  std::size_t file_ = 0;      // index of the next or current file
  std::uint64_t index_ = 0;   // of the next record
  fs::Fd fd_;                 // jsonl: the current file
  std::uint64_t offset_ = 0;  // jsonl: bytes of it read
  std::uint64_t line_ = 0;    // jsonl: lines of it given
  std::string pending_;       // jsonl: bytes read, not yet given
  std::size_t pending_at_ = 0;
};

/// The text of a record, or why it has none.
struct Document {
  std::string text;
  std::string fault;  ///< "'a.py': not UTF-8 at byte 17"; empty for a good document
};

/// What stops the work under BadRecords::kStop.
[[nodiscard]] Error bad_record_error(const Document& document);

/// Reads and checks one record. Throws Error(kData) for a file that cannot be read or changed since it was
/// listed.
[[nodiscard]] Document open_document(Record& record, TextFormat format, const std::string& field);

}  // namespace echelon::data
