#include "metrics/names.h"

#include "base/str.h"

namespace echelon::metrics {
namespace {

/// "spread/work_s/min,median,max | echelon_rank_work_seconds{stat} | Part of a step ..."
Name read_row(const std::string& row) {
  const std::size_t first = row.find(" | ");
  const std::size_t second = row.find(" | ", first + 3);
  Name name{.place = row.substr(0, first),
            .metric = row.substr(first + 3, second - first - 3),
            .meaning = row.substr(second + 3)};
  const std::size_t brace = name.metric.find('{');
  if (brace == name.metric.npos) return name;
  name.label = name.metric.substr(brace + 1, name.metric.size() - brace - 2);
  name.metric.resize(brace);
  const std::string words = name.place.substr(name.place.rfind('/') + 1);
  name.place.resize(name.place.size() - words.size());
  if (words != "*") name.words = split(words, ',');
  return name;
}

}  // namespace

const std::vector<Name>& names() {
  static const std::vector<Name> all = [] {
    std::vector<Name> read;
    for (const std::string& row : split(kNamesTable, '\n')) {
      if (!row.empty()) read.push_back(read_row(row));
    }
    return read;
  }();
  return all;
}

}  // namespace echelon::metrics
