#include "data/prepare/csv_row.h"

#include "base/str.h"

namespace echelon::data {

CsvPlace after(CsvPlace place, char c) {
  if (place == CsvPlace::kQuoted) return c == '"' ? CsvPlace::kQuoteInQuoted : CsvPlace::kQuoted;
  if (c == ',' || c == '\n') return CsvPlace::kFieldStart;
  if (c == '"' && place != CsvPlace::kPlain) return CsvPlace::kQuoted;
  return CsvPlace::kPlain;
}

std::size_t CsvRowEnd::find(std::string_view part) {
  for (std::size_t at = 0; at < part.size(); ++at) {
    if (place_ == CsvPlace::kQuoted) {  // most of a file of texts
      at = part.find('"', at);
      if (at == std::string_view::npos) return at;
    }
    const bool ends = part[at] == '\n' && place_ != CsvPlace::kQuoted;
    place_ = after(place_, part[at]);
    if (ends) return at;
  }
  return std::string_view::npos;
}

std::string split_csv_row(std::string_view row, std::vector<std::string>& fields) {
  fields.assign(1, "");
  if (row.ends_with('\r')) row.remove_suffix(1);
  CsvPlace place = CsvPlace::kFieldStart;
  for (const char c : row) {
    const CsvPlace before = place;
    place = after(before, c);
    if (place == CsvPlace::kFieldStart) {
      fields.emplace_back();
      continue;
    }
    if (before == CsvPlace::kQuoteInQuoted && place == CsvPlace::kPlain)
      return str("text after the closing quote of column ", fields.size());
    const bool opens = before == CsvPlace::kFieldStart && place == CsvPlace::kQuoted;
    if (!opens && place != CsvPlace::kQuoteInQuoted) fields.back() += c;
  }
  return place == CsvPlace::kQuoted ? str("the quote of column ", fields.size(), " is not closed") : "";
}

}  // namespace echelon::data
