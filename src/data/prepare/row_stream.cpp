#include "data/prepare/row_stream.h"

#include <algorithm>

#include "base/foreign_text.h"
#include "base/str.h"

namespace echelon::data {
namespace {

constexpr std::size_t kPart = std::size_t{1} << 20;

}  // namespace

/// Appends the next part to what is pending. False at the end of the file.
bool RowStream::fill() {
  pending_.erase(0, at_);
  at_ = 0;
  const std::size_t before = pending_.size();
  pending_.resize(before + kPart);
  pending_.resize(before + stream_.read(std::span(pending_).subspan(before)));
  if (!begun_ && pending_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  begun_ = true;
  return pending_.size() > before;
}

bool RowStream::next(Row& row) {
  CsvRowEnd csv;
  std::size_t searched = 0;  // bytes of the row
  const auto find_end = [&] {
    const auto part = std::string_view(pending_).substr(at_ + searched);
    const std::size_t end = kind_ == Kind::kCsv ? csv.find(part) : part.find('\n');
    return end == std::string_view::npos ? end : end + searched;
  };
  std::size_t end = find_end();
  while (end == std::string::npos && pending_.size() - at_ <= kLongestRow) {
    searched = pending_.size() - at_;
    const bool first = !begun_;
    if (!fill()) break;
    if (first) searched = 0;
    end = find_end();
  }
  row = Row{.text = {}, .number = line_, .fault = {}};
  const std::size_t size = std::min(end, pending_.size() - at_);
  const bool ended = end != std::string::npos;
  if (size > kLongestRow) {
    row.fault = str("longer than ", kLongestRow, " bytes");
    skip_row(end, csv);
    if (line_ > row.number + 1) row.fault += str(" up to line ", line_ - 1, "; is a quote not closed?");
    return true;
  }
  if (!ended && csv.is_quoted()) {
    row.fault = "its quote is still open at the end of the file";
    skip_line();
    return true;
  }
  if (size == 0 && !ended) return false;
  take(size, ended ? 1 : 0, row);
  return true;
}

void RowStream::take(std::size_t size, std::size_t newline, Row& row) {
  row.text = pending_.substr(at_, size);
  line_ += newline + static_cast<std::uint64_t>(std::ranges::count(row.text, '\n'));
  at_ += size + newline;
}

/// Leaves out a row that is too long, to its end, because its lines are no rows. `end`: of it in what is
/// pending, all of which `csv` has seen if it is npos.
void RowStream::skip_row(std::size_t end, CsvRowEnd& csv) {
  const auto skip = [&](std::size_t size) {
    const auto from = pending_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ += static_cast<std::uint64_t>(std::count(from, from + static_cast<std::ptrdiff_t>(size), '\n'));
    at_ += size;
  };
  while (end == std::string::npos) {
    skip(pending_.size() - at_);
    if (!fill()) return;
    end = kind_ == Kind::kCsv ? csv.find(pending_) : pending_.find('\n');
  }
  skip(end + 1);
}

/// Skips the first pending line: behind a quote that is never closed, the next line is the nearest place
/// where another row may begin.
void RowStream::skip_line() {
  at_ = std::min(pending_.find('\n', at_), pending_.size() - 1) + 1;
  ++line_;
}

}  // namespace echelon::data
