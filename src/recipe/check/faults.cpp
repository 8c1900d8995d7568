#include "recipe/check/faults.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"

namespace echelon::recipe {
namespace {

constexpr std::size_t kMaxReported = 50;
// Bounds memory: a megabyte of garbage must not give a gigabyte of reports.
constexpr std::size_t kMaxKept = 1000;
constexpr std::size_t kMaxShownBytes = 60;

}  // namespace

std::size_t Sources::add_file(std::string name) {
  sources_.push_back({std::move(name), false});
  return sources_.size() - 1;
}

std::size_t Sources::add_override(std::string_view argument) {
  sources_.push_back({str("command line: ", shown(argument)), true});
  return sources_.size() - 1;
}

bool Sources::is_override(const Position& at) const {
  return sources_[at.source].is_override;
}

std::string Sources::where(const Position& at) const {
  const Source& source = sources_[at.source];
  return source.is_override ? source.name
                            : str(source.name, ':', std::max(1, at.line), ':', std::max(1, at.column));
}

std::string Sources::origin(const Position& at) const {
  return is_override(at) ? "command line" : where(at);
}

void Faults::add(const Position& at, std::string text) {
  ++count_;
  if (faults_.size() < kMaxKept) faults_.push_back({at, std::move(text)});
}

void Faults::add(const Faults& others) {
  for (const Fault& fault : others.faults_) add(fault.at, fault.text);
  count_ += others.count_ - others.faults_.size();
}

bool Faults::full() const {
  return faults_.size() == kMaxKept;
}

void Faults::raise_if_any(const Sources& sources) const {
  if (faults_.empty()) return;
  std::vector<Fault> sorted = faults_;
  std::ranges::stable_sort(sorted, [](const Fault& a, const Fault& b) {
    return a.at == kNowhere || b.at == kNowhere ? b.at == kNowhere && a.at != kNowhere : a.at < b.at;
  });
  std::vector<std::string> lines;
  for (const Fault& fault : sorted) {
    if (lines.size() == kMaxReported) {
      lines.push_back(str("... and ", count_ - kMaxReported, " more; correct these first"));
      break;
    }
    lines.push_back(str(sources.where(fault.at), ": ", fault.text));
  }
  throw Error(Code::kUsage, join(lines, "\n"));
}

std::string shown(std::string_view text) {
  return str("'", printable(text, kMaxShownBytes), "'");
}

}  // namespace echelon::recipe
