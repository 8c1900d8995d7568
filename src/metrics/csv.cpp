#include "metrics/csv.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"
#include "metrics/names.h"

namespace echelon::metrics {
namespace {

/// Where a column stands: known names first, in the order of their table.
std::size_t place_of(const std::string& tag) {
  if (tag == "step") return 0;
  if (tag == "time") return 1;
  const std::vector<Name>& known = names();
  const auto name = std::ranges::find_if(
      known, [&tag](const Name& n) { return n.label.empty() ? tag == n.place : tag.starts_with(n.place); });
  return 2 + static_cast<std::size_t>(name - known.begin());
}

std::string cell(const std::string& text) {
  const bool plain = text.find_first_of(",\"") == text.npos;
  return plain ? text : str('"', replace_all(text, "\"", "\"\""), '"');
}

}  // namespace

void CsvColumns::add(const Line& line) {
  const std::size_t before = columns_.size();
  for (const Value& value : line.values) {
    if (!at_.try_emplace(value.tag).second) continue;
    if (columns_.size() == kMostColumns)
      throw Error(Code::kUsage, "the lines have more than ", kMostColumns,
                  " different values; expected the metrics of one run");
    columns_.push_back({place_of(value.tag), value.tag});
  }
  if (columns_.size() == before) return;
  std::ranges::sort(columns_);
  for (std::size_t i = 0; i < columns_.size(); ++i) at_[columns_[i].tag] = i;
}

bool CsvColumns::cover(const Line& line) const {
  return std::ranges::all_of(line.values, [this](const Value& value) { return at_.contains(value.tag); });
}

std::string CsvColumns::heading() const {
  return join(mapped(columns_, [](const Column& column) { return cell(column.tag); }), ",") + "\n";
}

std::string CsvColumns::row(const Line& line) const {
  std::vector<std::string> cells(columns_.size());
  for (const Value& value : line.values) {
    if (const auto at = at_.find(value.tag); at != at_.end()) cells[at->second] = number_text(value.value);
  }
  return join(cells, ",") + "\n";
}

LineCounts write_csv(const std::filesystem::path& file, CsvColumns& columns,
                     const std::function<void(std::string_view)>& write) {
  // The columns are known only at the end, so the file is read twice.
  const LineCounts counts = for_each_line(file, [&columns](const Line& line) { columns.add(line); });
  if (counts.lines == 0) return counts;
  write(columns.heading());
  for_each_line(file, [&](const Line& line) { write(columns.row(line)); });
  return counts;
}

}  // namespace echelon::metrics
