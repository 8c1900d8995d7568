#include "data/records.h"

#include <fcntl.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/str.h"
#include "data/utf8.h"

namespace echelon::data {
namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxDocumentBytes = std::uint64_t{1} << 30;
// A batch of tiny files is bounded too.
constexpr std::size_t kMostRecords = 4096;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string where(const Record& record) {
  return record.line == 0 ? str("'", record.source->path.string(), "'")
                          : str(record.source->path.string(), ":", record.line);
}

/// The library's reason without its own error number.
std::string json_reason(const std::exception& e) {
  const std::string_view text = e.what();
  const auto bracket = text.find("] ");
  return std::string(bracket == std::string_view::npos ? text : text.substr(bracket + 2));
}

Document open_line(const Record& record, const std::string& field) {
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(record.text);
  } catch (const nlohmann::json::exception& e) {
    return {"", str(where(record), ": not JSON: ", json_reason(e))};
  }
  if (!object.is_object()) return {"", str(where(record), ": not a JSON object but ", object.type_name())};
  const auto value = object.find(field);
  if (value == object.end()) return {"", str(where(record), ": has no field '", field, "'")};
  if (!value->is_string()) {
    return {"", str(where(record), ": field '", field, "' is ", value->type_name(), ", expected a string")};
  }
  return {std::move(value->get_ref<std::string&>()), ""};
}

Document open_file(const Record& record) {
  Document document{fs::read_file(record.source->path, kMaxDocumentBytes, Code::kData), ""};
  if (document.text.size() != record.source->bytes) {
    throw Error(Code::kData, str("source '", record.source->path.string(),
                                 "' changed while it was read: ", document.text.size(), " bytes instead of ",
                                 record.source->bytes, "; run again"));
  }
  if (document.text.starts_with(kByteOrderMark)) document.text.erase(0, kByteOrderMark.size());
  const auto nul = document.text.find('\0');
  if (nul != std::string::npos) return {"", str(where(record), ": a binary file (NUL at byte ", nul, ")")};
  const auto bad = find_invalid_utf8(document.text);
  if (bad != std::string::npos) return {"", str(where(record), ": not UTF-8 at byte ", bad)};
  return document;
}

}  // namespace

std::optional<RecordBatch> RecordReader::next() {
  RecordBatch batch;
  while (file_ < files_.size() && batch.bytes < kBatchBytes && batch.records.size() < kMostRecords) {
    if (format_ == TextFormat::kJsonl) {
      add_lines(batch);
    } else {
      add_file(batch);
    }
  }
  if (batch.records.empty() && batch.bytes == 0) return std::nullopt;
  return batch;
}

void RecordReader::add_file(RecordBatch& batch) {
  const SourceFile& file = files_[file_++];
  batch.records.push_back({.index = index_++, .source = &file, .line = 0, .text = {}});
  batch.bytes += file.bytes;
}

/// Reads the next part of the current file behind what is pending. False at its end.
bool RecordReader::fill() {
  const SourceFile& file = files_[file_];
  pending_.erase(0, pending_at_);
  pending_at_ = 0;
  const std::uint64_t count = std::min(kBatchBytes, file.bytes - offset_);
  if (count == 0) return false;
  if (pending_.size() + count > kMaxDocumentBytes) {
    throw Error(Code::kData, str(file.path.string(), ":", line_ + 1, ": a line longer than ",
                                 kMaxDocumentBytes, " bytes; is this JSONL?"));
  }
  const std::size_t old_size = pending_.size();
  pending_.resize(old_size + count);
  fs::read_at(fd_, offset_, std::as_writable_bytes(std::span(pending_).subspan(old_size)), Code::kData,
              file.path);
  offset_ += count;
  return true;
}

/// Gives lines of the current file until it ends or the batch is full.
void RecordReader::add_lines(RecordBatch& batch) {
  const SourceFile& file = files_[file_];
  if (!fd_.valid()) fd_ = fs::open(file.path, O_RDONLY, Code::kData);
  while (batch.bytes < kBatchBytes && batch.records.size() < kMostRecords) {
    std::size_t end = pending_.find('\n', pending_at_);
    while (end == std::string::npos) {
      const std::size_t searched = pending_.size() - pending_at_;
      if (!fill()) break;
      end = pending_.find('\n', searched);
    }
    const bool at_end = end == std::string::npos;
    const std::size_t length = (at_end ? pending_.size() : end) - pending_at_;
    const std::string_view line = std::string_view(pending_).substr(pending_at_, length);
    ++line_;
    batch.bytes += length + (at_end ? 0 : 1);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      batch.records.push_back({.index = index_++, .source = &file, .line = line_, .text = std::string(line)});
    }
    pending_at_ += length + (at_end ? 0 : 1);
    if (at_end) {
      fd_ = fs::Fd();
      offset_ = line_ = 0;
      pending_.clear();
      pending_at_ = 0;
      ++file_;
      return;
    }
  }
}

Error bad_record_error(const Document& document) {
  return {Code::kData, str("bad record ", document.fault, "; correct it or use --on-bad-record skip")};
}

Document open_document(Record& record, TextFormat format, const std::string& field) {
  return format == TextFormat::kJsonl ? open_line(record, field) : open_file(record);
}

}  // namespace echelon::data
