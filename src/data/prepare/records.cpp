#include "data/prepare/records.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/foreign_json.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "data/prepare/csv_row.h"
#include "data/prepare/parquet_rows.h"
#include "data/prepare/row_stream.h"
#include "data/prepare/text_format.h"
#include "text/utf8.h"

namespace echelon::data {
namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxDocumentBytes = std::uint64_t{1} << 30;
// Bounds batches of tiny files, too.
constexpr std::size_t kMostRecords = 4096;
// Only one or two fields of a record matter, so duplicate keys elsewhere are allowed.
constexpr JsonLimits kRecordLimits{.depth = 512, .unique_keys = false};
constexpr std::string_view kBlank = " \t\r";

/// The column named `name`. Throws Error(kData): there is none, or several.
std::size_t find_column(const std::vector<std::string>& header, const std::string& name,
                        const SourceFile& file) {
  const auto found = std::ranges::find(header, name);
  const auto refuse = [&](std::string_view what) {
    throw Error(Code::kData, "'", file.path.string(), "' has ", what, " column '", printable(name),
                "'; its header row has: ", printable(join(header, ", "), 300));
  };
  if (found == header.end()) refuse("no");
  if (std::find(found + 1, header.end(), name) != header.end()) refuse("more than one");
  return static_cast<std::size_t>(found - header.begin());
}

/// `option`: that names a field.
std::string missing_field(const nlohmann::json& object, const std::string& name, std::string_view option) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  const bool talks = object.contains("messages") || object.contains("conversations");
  return str("has no field '", name, "': it has ",
             names.empty() ? "none" : str(printable(join(names, ", "), 300), " (", option, ")"),
             talks ? "; read conversations with --format chat" : "");
}

std::string json_field(nlohmann::json& object, const std::string& name, std::string_view option,
                       std::string& text) {
  const auto value = object.find(name);
  if (value == object.end()) return missing_field(object, name, option);
  if (!value->is_string()) return str("field '", name, "' is ", value->type_name(), ", expected a string");
  text = std::move(value->get_ref<std::string&>());
  return "";
}

std::string open_line(const Record& record, const PrepareOptions& options, Document& document) {
  auto [object, problem] = read_foreign_json(record.row.text, kRecordLimits);
  if (!problem.empty()) return problem;
  if (!object.is_object()) return str("not a JSON object but ", object.type_name());
  if (!options.pairs()) return json_field(object, options.text_field(), "--field NAME", document.text);
  if (auto fault = json_field(object, options.input, "--input NAME", document.text); !fault.empty())
    return fault;
  if (options.target == options.input) {
    document.target = document.text;
    return "";
  }
  return json_field(object, options.target, "--target NAME", document.target);
}

std::string open_row(const Record& record, const PrepareOptions& options, Document& document) {
  const auto bad = find_invalid_utf8(record.row.text);
  if (bad != std::string::npos) return str("not UTF-8 at byte ", bad, " of the row");
  std::vector<std::string> fields;
  if (auto fault = split_csv_row(record.row.text, fields); !fault.empty()) return fault;
  const CsvColumns& columns = *record.columns;
  if (fields.size() != columns.count)
    return str("has ", fields.size(), " columns, the header row ", columns.count);
  if (options.pairs()) document.target = fields[columns.target];
  document.text = std::move(fields[columns.text]);
  return "";
}

std::string open_file(const Record& record, Document& document) {
  const SourceFile& source = *record.source;
  document.text = read_source(source, kMaxDocumentBytes);
  if (document.text.starts_with(kByteOrderMark)) document.text.erase(0, kByteOrderMark.size());
  const auto nul = document.text.find('\0');
  if (nul != std::string::npos) return str("a binary file (NUL at byte ", nul, ")");
  const auto bad = find_invalid_utf8(document.text);
  return bad == std::string::npos ? "" : str("not UTF-8 at byte ", bad);
}

/// A pair without either side cannot be trained on.
std::string complete_pair(const PrepareOptions& options, Document& document) {
  const auto is_blank = [](const std::string& text) {
    return text.find_first_not_of(" \t\r\n") == std::string::npos;
  };
  if (is_blank(document.text)) return str("'", options.input, "' is empty");
  if (is_blank(document.target)) return str("'", options.target, "' is empty");
  document.text.insert(0, options.prefix);
  return "";
}

}  // namespace

std::optional<RecordBatch> RecordReader::next() {
  RecordBatch batch;
  while (at_.file < files_.size() && batch.bytes < kBatchBytes && batch.records.size() < kMostRecords) {
    if (options_.rows()) {
      add_rows(batch);
    } else {
      add_file(batch);
    }
  }
  if (batch.records.empty() && batch.bytes == 0) return std::nullopt;
  batch.end = at_;
  return batch;
}

void RecordReader::skip_to(const ReadPlace& place) {
  at_ = place;
  if (place.rows == 0) return;
  open_rows();
  Row row;
  for (std::uint64_t i = 0; i < place.rows; ++i) (void)rows_->next(row);
  covered_ = rows_->position();
}

void RecordReader::add_file(RecordBatch& batch) {
  const SourceFile& file = files_[at_.file++];
  batch.records.push_back({.index = at_.record++, .source = &file, .row = {}, .columns = {}});
  batch.bytes += file.bytes;
}

/// Opens the current file and, in CSV, reads its header.
void RecordReader::open_rows() {
  const SourceFile& file = files_[at_.file];
  const bool csv = options_.format == TextFormat::kCsv;
  if (is_parquet(file, options_)) {
    rows_ = open_parquet(file, options_);
  } else {
    rows_ = std::make_unique<RowStream>(file, csv ? RowStream::Kind::kCsv : RowStream::Kind::kLines);
  }
  covered_ = 0;
  if (!csv) return;
  Row row;
  std::vector<std::string> header;
  const bool any = rows_->next(row);
  if (any && row.fault.empty()) row.fault = split_csv_row(row.text, header);
  if (!any || !row.fault.empty()) {
    throw Error(Code::kData, "'", file.path.string(),
                "' has no header row: ", any ? row.fault : "it is empty");
  }
  auto columns = std::make_shared<CsvColumns>();
  columns->count = header.size();
  columns->text = find_column(header, options_.pairs() ? options_.input : options_.text_field(), file);
  if (options_.pairs()) columns->target = find_column(header, options_.target, file);
  columns_ = std::move(columns);
}

/// Adds rows of the current file until it ends or the batch is full.
void RecordReader::add_rows(RecordBatch& batch) {
  const SourceFile& file = files_[at_.file];
  if (!rows_) open_rows();
  const bool in_parquet = is_parquet(file, options_);
  std::uint64_t text_bytes = 0;
  bool more = true;
  while (more && text_bytes < kBatchBytes && batch.records.size() < kMostRecords) {
    Row row;
    more = rows_->next(row);
    if (more) ++at_.rows;
    if (!more || (row.fault.empty() && row.text.find_first_not_of(kBlank) == std::string::npos)) continue;
    text_bytes += row.text.size();
    batch.records.push_back({.index = at_.record++,
                             .source = &file,
                             .row = std::move(row),
                             .columns = columns_,
                             .in_parquet = in_parquet});
  }
  const std::uint64_t position = more ? rows_->position() : file.bytes;
  batch.bytes += position - covered_;
  covered_ = position;
  if (more) return;
  rows_.reset();
  at_.rows = 0;
  ++at_.file;
}

std::string place_of(const Record& record) {
  if (record.row.number == 0) return str("'", record.source->path.string(), "'");
  return str(record.source->path.string(), record.in_parquet ? ": row " : ":", record.row.number);
}

Error bad_record_error(const std::string& fault) {
  return {Code::kData, str("bad record ", fault, "; correct it or use --on-bad-record skip")};
}

Document open_document(const Record& record, const PrepareOptions& options) {
  Document document{.fault = record.row.fault};
  if (document.fault.empty()) {
    if (!options.rows()) {
      document.fault = open_file(record, document);
    } else if (options.format == TextFormat::kCsv) {
      document.fault = open_row(record, options, document);
    } else {
      document.fault = open_line(record, options, document);
    }
  }
  if (document.fault.empty() && options.pairs()) document.fault = complete_pair(options, document);
  return document;
}

}  // namespace echelon::data
