#include "data/parquet/parquet_file.h"

#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/type.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/str.h"

namespace echelon::data {
namespace {

// A part is about this large. More rows would not be quicker, and long ones may stand behind short ones. Of a
// row group's first part few are read, because a dictionary hides how long they are.
constexpr std::int64_t kPartBytes = std::int64_t{1} << 20;
constexpr std::int64_t kMostRows = 256;
constexpr std::int64_t kFirstRows = 16;

void collect_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const auto& child : field.children) collect_leaves(child, leaves);
}

}  // namespace

/// Arrow tells of most faults by a status, and of some by an exception.
template <class Body>
auto ParquetFile::guarded(Body&& body) const {
  try {
    return std::forward<Body>(body)();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    refuse_content(e.what());
  }
}

ParquetFile::ParquetFile(int fd, const SourceFile& file, const std::vector<WantedColumn>& columns)
    : file_(file) {
  guarded([&] {
    open(fd);
    find_columns(columns);
  });
}

void ParquetFile::refuse(const std::string& why) const {
  throw Error(Code::kData, "source '", file_.path.string(), "' ", why);
}

void ParquetFile::refuse_content(const std::string& why) const {
  const std::string group =
      group_ < 0 ? "" : str(", row group ", group_ + 1, " of ", reader_->num_row_groups());
  refuse(str("cannot be read as Parquet", group, ": ", printable(why, 300),
             "; copy it again, or write it again with pyarrow"));
}

void ParquetFile::check(const arrow::Status& status) const {
  if (!status.ok()) refuse_content(status.ToString());
}

void ParquetFile::open(int fd) {
  arrow::MemoryPool* pool = arrow::system_memory_pool();
  auto input = arrow::io::ReadableFile::Open(::dup(fd), pool);  // which closes it
  check(input.status());
  parquet::ReaderProperties properties(pool);
  properties.enable_buffered_stream();  // else a column of a row group would be read as a whole
  properties.set_page_checksum_verification(true);
  parquet::ArrowReaderProperties arrow_properties(false);  // no threads: prepare has its own
  arrow_properties.set_pre_buffer(false);
  auto reader = parquet::arrow::FileReader::Make(pool, parquet::ParquetFileReader::Open(*input, properties),
                                                 arrow_properties);
  check(reader.status());
  reader_ = reader.MoveValueUnsafe();
  const auto metadata = reader_->parquet_reader()->metadata();
  std::int64_t rows = 0;
  for (int group = 0; group < metadata->num_row_groups(); ++group)
    rows += metadata->RowGroup(group)->num_rows();
  if (rows != metadata->num_rows())
    refuse_content(str("its row groups have ", rows, " rows, and it states ", metadata->num_rows()));
}

void ParquetFile::find_columns(const std::vector<WantedColumn>& columns) {
  std::shared_ptr<arrow::Schema> schema;
  check(reader_->GetSchema(&schema));
  for (const WantedColumn& wanted : columns) find_column(*schema, wanted);
}

void ParquetFile::find_column(const arrow::Schema& schema, const WantedColumn& wanted) {
  const std::vector<int> found = schema.GetAllFieldIndices(wanted.name);
  if (found.empty() && wanted.may_lack) return;
  if (found.size() != 1) {
    refuse(str("has ", found.empty() ? "no" : "more than one", " column '", printable(wanted.name),
               "'; it has: ", printable(join(schema.field_names(), ", "), 300), "; name one with ",
               wanted.option));
  }
  const std::string type = type_without_json(*schema.field(found.front())->type());
  if (!type.empty()) {
    refuse(str("has ", printable(type), " in column '", printable(wanted.name),
               "', expected texts, numbers, lists and structs; name another one with ", wanted.option));
  }
  collect_leaves(reader_->manifest().schema_fields[static_cast<std::size_t>(found.front())], leaves_);
}

void ParquetFile::open_group() {
  ++group_;
  group_rows_ = 0;
  const auto group = reader_->parquet_reader()->metadata()->RowGroup(group_);
  std::int64_t bytes = 0;
  for (const int leaf : leaves_) bytes += group->ColumnChunk(leaf)->total_uncompressed_size();
  row_bytes_ = bytes / std::max(group->num_rows(), std::int64_t{1});
  read_at_once(kFirstRows);
  auto parts = reader_->GetRecordBatchReader({group_}, leaves_);
  check(parts.status());
  parts_ = parts.MoveValueUnsafe();
}

void ParquetFile::close_group() {
  const std::int64_t stated = reader_->parquet_reader()->metadata()->RowGroup(group_)->num_rows();
  if (group_rows_ != stated) refuse_content(str("it holds ", group_rows_, " rows, and states ", stated));
  parts_.reset();
}

void ParquetFile::read_at_once(std::int64_t most_rows) {
  reader_->set_batch_size(
      std::clamp(kPartBytes / std::max(row_bytes_, std::int64_t{1}), std::int64_t{1}, most_rows));
}

/// Reads the next part; false at the end of the file.
bool ParquetFile::fill() {
  if (part_ && part_->num_rows() > 0) {
    row_bytes_ = std::max(row_bytes_, part_bytes_ / part_->num_rows());
    read_at_once(kMostRows);
  }
  part_.reset();
  at_ = 0;
  part_bytes_ = 0;
  while (!part_) {
    if (!parts_ && group_ + 1 == reader_->num_row_groups()) return false;
    if (!parts_) open_group();
    check(parts_->ReadNext(&part_));
    if (!part_) close_group();
  }
  group_rows_ += part_->num_rows();
  return true;
}

std::string ParquetFile::row_text() {
  json_.clear();
  json_.add("{");
  for (int column = 0; column < part_->num_columns(); ++column) {
    if (column > 0) json_.add(", ");
    json_.add_string(part_->column_name(column));
    json_.add(": ");
    json_.add_value(*part_->column(column), at_);
  }
  json_.add("}");
  return json_.text();
}

bool ParquetFile::next(Row& row) {
  return guarded([&] {
    while (!part_ || at_ == part_->num_rows()) {
      if (!fill()) return false;
    }
    row = Row{.text = row_text(), .number = ++number_, .fault = json_.fault()};
    if (row.fault.empty() && row.text.size() > kLongestRow)
      row.fault = str("longer than ", kLongestRow, " bytes");
    if (!row.fault.empty()) row.text.clear();
    part_bytes_ += static_cast<std::int64_t>(json_.text().size());
    ++at_;
    return true;
  });
}

std::uint64_t ParquetFile::position() const {
  const auto rows = static_cast<double>(reader_->parquet_reader()->metadata()->num_rows());
  return static_cast<std::uint64_t>(static_cast<double>(file_.bytes) *
                                    (static_cast<double>(number_) / std::max(rows, 1.0)));
}

}  // namespace echelon::data

extern "C" echelon::data::Rows* echelon_open_parquet(
    int fd, const echelon::data::SourceFile& file, const std::vector<echelon::data::WantedColumn>& columns) {
  static_assert(std::is_same_v<decltype(echelon_open_parquet), echelon::data::OpenParquet>);
  return new echelon::data::ParquetFile(fd, file, columns);
}
