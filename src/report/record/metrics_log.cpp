#include "report/record/metrics_log.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/files/disk.h"
#include "base/files/own_file.h"

namespace echelon::report {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::size_t kMostSeries = 600;  ///< of some 16 KiB each
constexpr std::size_t kLongestName = 120;
constexpr std::size_t kMostRanks = 4096;
constexpr std::size_t kMostSpreads = 64;
constexpr std::string_view kRank = ".max_rank";
constexpr double kHighestStep = 1e12;

/// Returns whether the number is one per second, whose mean over time counts each line by its seconds.
bool is_rate(std::string_view name) {
  return name.ends_with("_per_s") || name == "mfu";
}

}  // namespace

void MetricsLog::begin_anew() {
  usual_.clear();  // it points into what goes
  *this = MetricsLog(file_, most_bytes_);
}

void MetricsLog::read_on() {
  struct stat info {};
  if (fs::disk().lstat(file_.c_str(), &info) != 0 && errno == ENOENT) return;
  const fs::Fd file = fs::open_own_to_read(file_, Code::kEnvironment);
  if (fs::disk().fstat(file.get(), &info) != 0)
    throw fs::system_error(Code::kEnvironment, "stat", file_, errno);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (place_.inode != info.st_ino || place_.device != info.st_dev || size < place_.offset) begin_anew();
  place_.inode = info.st_ino;
  place_.device = info.st_dev;
  const std::uint64_t end = std::min(size, most_bytes_);
  faults_.bytes_left_out = size - end;
  std::string buffer(kChunk, '\0');
  while (place_.offset < end) {
    const std::size_t wanted = std::min<std::uint64_t>(kChunk, end - place_.offset);
    const ssize_t got =
        fs::disk().pread(file.get(), buffer.data(), wanted, static_cast<off_t>(place_.offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(Code::kEnvironment, "cannot read '", file_.string(), "': ", fs::reason(errno));
    if (got == 0) break;  // cut meanwhile
    take_bytes(std::string_view(buffer).substr(0, static_cast<std::size_t>(got)));
    place_.offset += static_cast<std::uint64_t>(got);
  }
  faults_.torn = faults_.bytes_left_out == 0 && (!torn_.empty() || skipping_);
}

void MetricsLog::take_bytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (!skipping_ && torn_.size() + part.size() > kLongestLine) {
      skipping_ = true;
      torn_.clear();
      ++faults_.unreadable;
    }
    if (end == std::string_view::npos) {
      if (!skipping_) torn_ += part;
      return;
    }
    if (!skipping_) {
      if (torn_.empty()) {
        take_line(part);
      } else {
        torn_ += part;
        take_line(torn_);
      }
    }
    skipping_ = false;
    torn_.clear();
    bytes.remove_prefix(end + 1);
  }
}

void MetricsLog::take_line(std::string_view line) {
  if (line.empty()) return;
  ++lines_;
  if (!numbers_.read(line, kLongestLine).empty()) {
    ++faults_.unreadable;
    return;
  }
  const double step = value_of("step");
  if (!(step >= 0 && step <= kHighestStep) || step != std::floor(step)) {
    ++faults_.without_step;
    return;
  }
  if (step <= last_step_) ++faults_.out_of_order;
  line_steps_ = std::max(1.0, step - std::max(0.0, last_step_));
  const double step_s = value_of("step_time_s");
  line_seconds_ = step_s > 0 && std::isfinite(step_s) ? line_steps_ * step_s : line_steps_;
  last_step_ = step;
  if (const double time = value_of("time"); std::isfinite(time)) {
    if (time < last_time_) ++faults_.clock_back;
    last_time_ = time;
  }
  for (std::size_t i = 0; i < numbers_.numbers().size(); ++i) take_number(i, step);
}

double MetricsLog::value_of(std::string_view name) const {
  for (const ForeignNumbers::Number& number : numbers_.numbers()) {
    if (numbers_.name(number) == name) return number.value;
  }
  return std::nan("");
}

void MetricsLog::take_number(std::size_t index, double step) {
  const ForeignNumbers::Number& number = numbers_.numbers()[index];
  const std::string_view name = numbers_.name(number);
  if (name == "step" || name.size() > kLongestName) return;
  if (std::isnan(number.value)) {
    if (nulls_.size() < kMostSeries || nulls_.contains(std::string(name))) ++nulls_[std::string(name)];
  } else if (name.ends_with(kRank)) {
    count_rank(std::string(name), number.value);  // as a curve it would tell nothing
  } else if (index < usual_.size() && usual_[index]->first == name) {
    usual_[index]->second.add(step, number.value, is_rate(name) ? line_seconds_ : line_steps_);
  } else {
    add(std::string(name), step, number.value, index);
  }
}

void MetricsLog::add(const std::string& name, double step, double value, std::size_t index) {
  auto found = series_.find(name);
  if (found == series_.end()) {
    if (series_.size() >= kMostSeries) return;
    found = series_.emplace(name, Series()).first;
  }
  found->second.add(step, value, is_rate(name) ? line_seconds_ : line_steps_);
  if (index < kMostSeries) {
    // The next line's number at this place most likely has the same name.
    if (usual_.size() <= index) usual_.resize(index + 1, &*found);
    usual_[index] = &*found;
  }
}

void MetricsLog::count_rank(const std::string& name, double value) {
  const std::string spread = name.substr(0, name.size() - kRank.size());
  if (largest_.size() >= kMostSpreads && !largest_.contains(spread)) return;
  constexpr double kMost = 1e9;
  const auto rank = static_cast<std::int64_t>(std::clamp(value, 0.0, kMost));
  LargestRanks& largest = largest_[spread];
  ++largest.lines;
  if (largest.by_rank.size() >= kMostRanks && !largest.by_rank.contains(rank)) return;
  LargestRanks::Of& of = largest.by_rank[rank];
  ++of.lines;
  const double factor = value_of(spread + ".max") / value_of(spread + ".median");
  of.excess += std::isfinite(factor) ? factor : 1;
}

const Series* MetricsLog::find(std::string_view name) const {
  const auto found = series_.find(name);
  return found == series_.end() ? nullptr : &found->second;
}

std::vector<std::string> MetricsLog::names(std::string_view prefix) const {
  std::vector<std::string> found;
  for (auto it = series_.lower_bound(prefix); it != series_.end() && it->first.starts_with(prefix); ++it)
    found.push_back(it->first);
  return found;
}

}  // namespace echelon::report
