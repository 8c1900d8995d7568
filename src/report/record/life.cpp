#include "report/record/life.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace echelon::report {
namespace {

struct Interval {
  double begin_s = 0;
  double end_s = 0;
};

/// Sorted, without overlaps.
std::vector<Interval> united(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin_s);
  std::vector<Interval> whole;
  for (const Interval& one : intervals) {
    if (one.end_s <= one.begin_s) continue;
    if (!whole.empty() && one.begin_s <= whole.back().end_s) {
      whole.back().end_s = std::max(whole.back().end_s, one.end_s);
    } else {
      whole.push_back(one);
    }
  }
  return whole;
}

double length(const std::vector<Interval>& intervals) {
  return std::accumulate(intervals.begin(), intervals.end(), 0.0,
                         [](double sum, const Interval& i) { return sum + i.end_s - i.begin_s; });
}

/// The times at which one job held its nodes, from its starts and its script's notes.
struct JobTime {
  std::vector<Interval> recorded;  ///< by goodput.json
  std::vector<Interval> held;      ///< recorded, noted, and what lies between starts in one allocation
};

std::map<std::string, JobTime> job_times(const std::vector<Start>& starts,
                                         const std::vector<NotedStart>& noted) {
  std::map<std::string, JobTime> jobs;
  std::map<std::string, double> last_end_s;
  for (const Start& start : starts) {
    JobTime& job = jobs[start.job];
    job.recorded.push_back({start.began_s, start.ended_s});
    job.held.push_back({start.began_s, start.ended_s});
    const auto before = last_end_s.find(start.job);
    if (start.in_place && before != last_end_s.end()) job.held.push_back({before->second, start.began_s});
    last_end_s[start.job] = start.ended_s;
  }
  for (const NotedStart& note : noted) {
    if (note.ended_s > note.began_s) jobs[note.job].held.push_back({note.began_s, note.ended_s});
  }
  return jobs;
}

void add(std::vector<Part>& parts, const std::string& name, double seconds) {
  const auto found = std::ranges::find(parts, name, &Part::name);
  if (found != parts.end()) {
    found->seconds += seconds;
  } else {
    parts.push_back({.name = name, .seconds = seconds});
  }
}

}  // namespace

std::vector<std::int64_t> largest_remainders(const std::vector<double>& parts, std::int64_t total) {
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  std::vector<std::int64_t> shares(parts.size(), 0);
  if (!(sum > 0) || !std::isfinite(sum)) return shares;
  std::vector<double> remainders(parts.size());
  std::int64_t left = total;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double exact = parts[i] / sum * static_cast<double>(total);
    shares[i] = static_cast<std::int64_t>(std::floor(exact));
    remainders[i] = exact - std::floor(exact);
    left -= shares[i];
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++shares[order[i]];
  // The sum of roundings may be one above.
  for (std::size_t i = order.size(); left < 0 && i-- > 0;) {
    if (shares[order[i]] > 0) --shares[order[i]], ++left;
  }
  return shares;
}

std::int64_t Account::good_per_mille() const {
  std::int64_t good = 0;
  for (const Part& part : parts) {
    if (part.name == "train" || part.name == "validate") good += part.per_mille;
  }
  return good;
}

Account account_of(const std::vector<Start>& starts, const std::vector<NotedStart>& noted) {
  Account account;
  double unrecorded_s = 0;
  for (const Start& start : starts) {
    double recorded_s = 0;
    for (const auto& [name, seconds] : start.seconds) {
      add(account.parts, name, seconds);
      recorded_s += seconds;
    }
    constexpr double kRounding_s = 0.05;  // the file has thousandths
    const double missing_s = start.ended_s - start.began_s - recorded_s;
    if (missing_s > kRounding_s) unrecorded_s += missing_s;
  }
  for (const auto& [job, time] : job_times(starts, noted)) {
    const std::vector<Interval> held = united(time.held);
    unrecorded_s += std::max(0.0, length(held) - length(united(time.recorded)));
    if (!job.empty() && !held.empty())
      account.queued_s += held.back().end_s - held.front().begin_s - length(held);
  }
  if (unrecorded_s > 0) add(account.parts, kUnrecorded, unrecorded_s);
  std::vector<double> seconds;
  for (const Part& part : account.parts) seconds.push_back(part.seconds);
  account.allocated_s = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  constexpr std::int64_t kWhole = 1000;
  const std::vector<std::int64_t> shares = largest_remainders(seconds, kWhole);
  for (std::size_t i = 0; i < shares.size(); ++i) account.parts[i].per_mille = shares[i];
  return account;
}

}  // namespace echelon::report
