#include "gpu/stand_in/books.h"

#include <algorithm>

#include "base/str.h"

namespace echelon::stand_in {
namespace {

bool knows(const Clock& seen, int timeline, std::uint32_t moment) {
  return static_cast<std::size_t>(timeline) < seen.size() &&
         seen[static_cast<std::size_t>(timeline)] >= moment;
}

std::string fault(const Books::Name& what, const char* does, const Books::Name& other, const char* did) {
  return str(*what, ' ', does, " bytes that ", *other, ' ', did, ", and nothing orders the two");
}

}  // namespace

void join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

void Books::cut_at(std::uintptr_t at) {
  auto after = cells_.upper_bound(at);
  if (after == cells_.begin()) return;
  const auto cell = std::prev(after);
  if (cell->first == at || cell->second.end <= at) return;
  Cell rest = cell->second;
  cell->second.end = at;
  cells_.emplace(at, std::move(rest));
}

std::pair<Books::Cells::iterator, Books::Cells::iterator> Books::cut(Range range) {
  const auto begin = reinterpret_cast<std::uintptr_t>(range.memory);
  const std::uintptr_t end = begin + range.bytes;
  cut_at(begin);
  cut_at(end);
  for (std::uintptr_t at = begin; at < end;) {
    const auto next = cells_.lower_bound(at);
    if (next != cells_.end() && next->first == at) {
      at = next->second.end;
      continue;
    }
    Cell cell;
    cell.end = next == cells_.end() ? end : std::min(end, next->first);
    const std::uintptr_t after = cell.end;
    cells_.emplace(at, std::move(cell));
    at = after;
  }
  return {cells_.lower_bound(begin), cells_.lower_bound(end)};
}

std::string Books::against_writer(const Cell& cell, const Clock& seen, const Name& what, const char* does) {
  if (cell.writer >= 0 && !knows(seen, cell.writer, cell.written.moment))
    return fault(what, does, cell.written.what, "wrote");
  return cell.freed ? str(*what, ' ', does, " bytes that ", *cell.written.what, " has freed") : "";
}

std::string Books::reads(int timeline, const Clock& seen, Range range, const Name& what) {
  std::string found;
  const auto [begin, end] = cut(range);
  for (auto it = begin; it != end; ++it) {
    if (const auto text = against_writer(it->second, seen, what, "reads"); !text.empty()) found = text;
    it->second.readers[timeline] = {.moment = seen[static_cast<std::size_t>(timeline)], .what = what};
  }
  return found;
}

std::string Books::writes(int timeline, const Clock& seen, Range range, const Name& what) {
  std::string found;
  const auto [begin, end] = cut(range);
  for (auto it = begin; it != end; ++it) {
    Cell& cell = it->second;
    if (const auto text = against_writer(cell, seen, what, "overwrites"); !text.empty()) found = text;
    for (const auto& [reader, access] : cell.readers) {
      if (!knows(seen, reader, access.moment)) found = fault(what, "overwrites", access.what, "reads");
    }
    cell.readers.clear();
    cell.writer = timeline;
    cell.written = {.moment = seen[static_cast<std::size_t>(timeline)], .what = what};
  }
  return found;
}

std::string Books::frees(int timeline, const Clock& seen, Range range, const Name& what) {
  std::string found = writes(timeline, seen, range, what);
  const auto [begin, end] = cut(range);
  for (auto it = begin; it != end; ++it) it->second.freed = true;
  return found;
}

void Books::fresh(Range range) {
  const auto [begin, end] = cut(range);
  cells_.erase(begin, end);
}

}  // namespace echelon::stand_in
