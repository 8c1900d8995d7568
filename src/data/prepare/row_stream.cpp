#include "data/prepare/row_stream.h"

#include <algorithm>

#include "base/foreign_text.h"
#include "base/str.h"

namespace echelon::data {
namespace {

constexpr std::size_t kPart = std::size_t{1} << 20;
constexpr std::string_view kBlank = " \t\r\n";

}  // namespace

std::size_t JsonElementEnd::find(std::string_view part) {
  for (std::size_t at = 0; at < part.size(); ++at) {
    if (in_string_ && !escaped_) {  // most of a file of texts
      at = part.find_first_of("\"\\\n", at);
      if (at == std::string_view::npos) return at;
    }
    const char c = part[at];
    if (in_string_) {
      if (c == '\n') *this = {};
      if (!escaped_ && c == '"') in_string_ = false;
      escaped_ = in_string_ && !escaped_ && c == '\\';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (depth_ > 0) {
      if (c == '}' || c == ']') --depth_;
    } else if (c == ',' || c == ']') {
      return at;
    }
  }
  return std::string_view::npos;
}

/// Finds the end of a row, which comes in several parts.
struct RowStream::RowEnd {
  Kind kind;
  bool in_array;
  CsvRowEnd csv;
  JsonElementEnd json;

  std::size_t find(std::string_view part) {
    if (in_array) return json.find(part);
    return kind == Kind::kCsv ? csv.find(part) : part.find('\n');
  }
};

/// Appends the next part to what is pending. False at the end of the file.
bool RowStream::fill() {
  pending_.erase(0, at_);
  at_ = 0;
  const std::size_t before = pending_.size();
  pending_.resize(before + kPart);
  pending_.resize(before + stream_.read(std::span(pending_).subspan(before)));
  return pending_.size() > before;
}

/// Passes over what stands before the first row.
void RowStream::begin() {
  begun_ = true;
  fill();
  if (pending_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  const std::size_t first = pending_.find_first_not_of(kBlank, at_);
  in_array_ = kind_ == Kind::kLines && first != std::string::npos && pending_[first] == '[';
  if (in_array_) skip(first + 1 - at_);
}

bool RowStream::next(Row& row) {
  if (!begun_) begin();
  if (in_array_) skip_blank();
  RowEnd row_end{.kind = kind_, .in_array = in_array_, .csv = {}, .json = {}};
  std::size_t end = row_end.find(std::string_view(pending_).substr(at_));
  while (end == std::string::npos && pending_.size() - at_ <= kLongestRow) {
    const std::size_t searched = pending_.size() - at_;
    if (!fill()) break;
    end = row_end.find(std::string_view(pending_).substr(searched));
    if (end != std::string::npos) end += searched;
  }
  row = Row{.text = {}, .number = line_, .fault = {}};
  const std::size_t size = std::min(end, pending_.size() - at_);
  const bool ended = end != std::string::npos;
  if (size > kLongestRow) {
    row.fault = str("longer than ", kLongestRow, " bytes");
    skip_row(end, row_end);
    if (line_ > row.number + 1) row.fault += str(" up to line ", line_ - 1, "; is a quote not closed?");
    return true;
  }
  if (!ended && row_end.csv.is_quoted()) {
    row.fault = "its quote is still open at the end of the file";
    // The next line is the nearest place where another row may begin.
    skip(std::min(pending_.find('\n', at_), pending_.size() - 1) + 1 - at_);
    return true;
  }
  if (!ended && in_array_) {
    row.fault = "the array is not closed at the end of the file: is it cut short?";
    in_array_ = false;
    skip(size);
    return true;
  }
  if (size == 0 && !ended) return false;
  row.text = pending_.substr(at_, size);
  pass_end(size);
  return true;
}

/// Passes over `size` bytes and what ends their row, if anything does.
void RowStream::pass_end(std::size_t size) {
  const std::size_t end = at_ + size;
  if (in_array_) in_array_ = pending_[end] == ',';
  skip(std::min(end + 1, pending_.size()) - at_);
}

void RowStream::skip(std::size_t size) {
  const auto from = pending_.begin() + static_cast<std::ptrdiff_t>(at_);
  line_ += static_cast<std::uint64_t>(std::count(from, from + static_cast<std::ptrdiff_t>(size), '\n'));
  at_ += size;
}

/// Passes over blanks, so that an element is at the line where it begins.
void RowStream::skip_blank() {
  do {
    skip(std::min(pending_.find_first_not_of(kBlank, at_), pending_.size()) - at_);
  } while (at_ == pending_.size() && fill());
}

/// Leaves out a row that is too long, to its end, because its lines are no rows. `end`: of it in what is
/// pending, all of which `row_end` has seen if it is npos.
void RowStream::skip_row(std::size_t end, RowEnd& row_end) {
  while (end == std::string::npos) {
    skip(pending_.size() - at_);
    if (!fill()) return;
    end = row_end.find(pending_);
  }
  pass_end(end);
}

}  // namespace echelon::data
