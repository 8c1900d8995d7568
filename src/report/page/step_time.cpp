#include <algorithm>
#include <array>
#include <cmath>

#include "base/str.h"
#include "report/charts/rows.h"
#include "report/page/common.h"
#include "report/page/sections.h"

namespace echelon::report {
namespace {

struct StepPart {
  const char* series;
  const char* name;
};

constexpr double kMicro = 1e-6;
constexpr std::array kParts{StepPart{"breakdown_s.compute", "compute"},
                            StepPart{"breakdown_s.gather_wait", "exposed gather"},
                            StepPart{"breakdown_s.reduce_wait", "exposed reduce"},
                            StepPart{"breakdown_s.data_wait", "waiting for data"},
                            StepPart{"breakdown_s.optimizer", "optimizer"},
                            StepPart{"breakdown_s.other", "other"}};

/// The series of the parts, if they were logged together.
std::vector<Curve> parts_of(const MetricsLog& metrics) {
  std::vector<Curve> curves;
  std::uint64_t count = 0;
  for (const StepPart& part : kParts) {
    const Series* series = metrics.find(part.series);
    if (series == nullptr) continue;
    if (count != 0 && series->count() != count) return {};
    count = series->count();
    curves.push_back(
        {.name = part.name, .points = series->means(), .style = static_cast<int>(&part - kParts.data())});
  }
  return curves;
}

std::string breakdown(const MetricsLog& metrics) {
  const std::vector<Curve> parts = parts_of(metrics);
  if (!parts.empty()) {
    return stacked_chart({.id = "breakdown",
                          .title = "Where a step's time goes",
                          .description = "Seconds of a step, mean over the ranks.",
                          .note = thinning_note(metrics, "breakdown_s.compute").empty()
                                      ? ""
                                      : "Neighboring steps are drawn as their mean."},
                         {.y = "step", .y_quantity = Quantity::kSeconds, .from_zero = true}, parts);
  }
  if (metrics.names("breakdown_s.").empty()) return "";
  return paragraph(
      "The lines of metrics.jsonl have different parts of a step's time, which cannot be put on top of one "
      "another.",
      "note");
}

/// The ranks of the start with the fewest, where ranks came and went.
std::size_t ranks_of(const RunView& view, const LargestRanks& largest) {
  std::size_t ranks = 0;
  for (const Start& start : view.run.starts) {
    const auto own = static_cast<std::size_t>(std::max<std::int64_t>(0, start.ranks));
    ranks = ranks == 0 ? own : std::min(ranks, own);
  }
  return std::max({ranks, largest.by_rank.size(), std::size_t{2}});
}

/// Equal ranks have the largest value in 1/ranks of the lines each. A straggler has it at least half of the
/// way from there to always, and three standard deviations more often than chance gives it.
bool is_no_chance(const LargestRanks& largest, std::size_t ranks, std::uint64_t lines) {
  constexpr double kDeviations = 3;
  const double chance = 1 / static_cast<double>(ranks);
  const auto all = static_cast<double>(largest.lines);
  const double more = static_cast<double>(lines) - all * chance;
  return more >= all * (1 - chance) / 2 && more >= kDeviations * std::sqrt(all * chance * (1 - chance));
}

/// "rank 3 (n1) was slowest in 41 of 50 lines, 1.4 times the median there"
std::string straggler_of(const RunView& view, const std::string& spread, const LargestRanks& largest,
                         bool& named) {
  const auto most = std::ranges::max_element(
      largest.by_rank, [](const auto& a, const auto& b) { return a.second.lines < b.second.lines; });
  if (most == largest.by_rank.end() || most->second.lines == 0) return "";
  const double factor = most->second.excess / static_cast<double>(most->second.lines);
  constexpr double kFar = 1.1;
  named = factor >= kFar && is_no_chance(largest, ranks_of(view, largest), most->second.lines);
  const std::string host = host_of_rank(view.run.folder, most->first);
  return str("rank ", most->first, host.empty() ? "" : str(" (", host, ")"), " had the largest ", spread,
             " in ", most->second.lines, " of ", largest.lines, " lines, on average ", significant(factor, 3),
             " times the median");
}

/// A number of which lines have the spread over the ranks.
struct SpreadOf {
  const char* name;
  const char* id;
  const char* title;
  const char* description;
  Quantity quantity;
};
constexpr std::array kSpreads{
    SpreadOf{"work_s", "spread-work", "Spread of work",
             "Seconds of a step less waiting for other ranks: least, median and greatest of the ranks.",
             Quantity::kSeconds},
    SpreadOf{"comm_wait_s", "spread-comm", "Spread of waiting for others",
             "Seconds of a step that a rank waits for collectives: least, median and greatest of the ranks.",
             Quantity::kSeconds},
    SpreadOf{"data_wait_s", "spread-data", "Spread of waiting for data",
             "Seconds of a step that a rank waits for data: least, median and greatest of the ranks.",
             Quantity::kSeconds},
    SpreadOf{"peak_rss_bytes", "spread-memory", "Spread of host memory",
             "Largest host memory of a rank: least, median and greatest of the ranks.", Quantity::kBytes}};

std::string spread_chart(const MetricsLog& metrics, const SpreadOf& one) {
  const std::string base = str("spread.", one.name);
  const Series* least = metrics.find(base + ".min");
  const Series* median = metrics.find(base + ".median");
  const Series* most = metrics.find(base + ".max");
  if (least == nullptr || median == nullptr || most == nullptr || least->count() != most->count()) return "";
  const bool bytes = one.quantity == Quantity::kBytes;
  return line_chart(
      {.id = one.id, .title = one.title, .description = one.description},
      {.y = bytes ? "memory" : "of a step", .y_quantity = one.quantity, .from_zero = true},
      {{.name = "least to greatest", .points = least->means(), .style = 0, .upper = most->means()},
       {.name = "median", .points = median->means(), .style = 1},
       {.name = "greatest", .points = most->means(), .style = 2}});
}

/// Ranks and nodes that the run itself warned of.
std::string warned_stragglers(const RunLog& log) {
  constexpr std::size_t kMost = 10;
  std::string html;
  std::size_t count = 0;
  for (const Event& event : log.events) {
    const bool slow =
        event.kind == EventKind::kWarning && (event.text.find("straggler") != std::string::npos ||
                                              event.text.find("slow network") != std::string::npos);
    if (slow && ++count <= kMost) html += paragraph(str(shown_utc(event.time_s), ": ", event.text), "warn");
  }
  return html;
}

/// The differences between ranks: sentences, and charts.
struct Spread {
  std::string html;
  std::string charts;
};

Spread spread(const RunView& view) {
  Spread spread{.html = warned_stragglers(view.run.log)};
  Table ranks{.columns = {"number", "who had the largest most often"}};
  for (const SpreadOf& one : kSpreads) {
    spread.charts += spread_chart(view.metrics, one);
    const auto largest = view.metrics.largest_ranks().find(str("spread.", one.name));
    if (largest == view.metrics.largest_ranks().end()) continue;
    bool named = false;
    const std::string sentence = straggler_of(view, one.name, largest->second, named);
    if (!sentence.empty()) ranks.rows.push_back({one.name, sentence});
    if (named && std::string_view(one.name) == "work_s")
      spread.html += paragraph("Straggler: " + sentence + ".", "warn");
  }
  if (spread.charts.empty())
    spread.charts =
        paragraph("This run did not log the spread over its ranks (`spread` in metrics.jsonl).", "card");
  if (!ranks.rows.empty()) {
    spread.charts += str("<details class=\"wide\"><summary>Who was slowest</summary>",
                         html_table(ranks, "wrapped"), "</details>");
  }
  return spread;
}

/// Spans of a lane, those nearer than a pixel as one.
TimeRow row_of(const Lanes::Lane& lane, const std::string& name, int style, double pixel_us) {
  TimeRow row{.name = name};
  for (const Lanes::Span& span : lane.spans) {
    const double begin = span.begin_us;
    const double end = span.begin_us + span.duration_us;
    if (!row.spans.empty() && begin - row.spans.back().end_s / kMicro < pixel_us &&
        end - row.spans.back().begin_s / kMicro < 4 * pixel_us) {
      row.spans.back().end_s = std::max(row.spans.back().end_s, end * kMicro);
      row.spans.back().text += ", ...";
    } else {
      row.spans.push_back({begin * kMicro, end * kMicro, style,
                           str(span.label.empty() ? lane.name : str(lane.name, " ", span.label), ": ",
                               shown(span.duration_us * kMicro, Quantity::kSeconds))});
    }
  }
  return row;
}

/// The time for which the lanes of a rank were busy with each unit.
Table busiest(const Lanes& lanes) {
  Table table{.columns = {"rank", "lane", "busy", "spans", "longest"}};
  for (const Lanes::Rank& rank : lanes.ranks) {
    for (const Lanes::Lane& lane : rank.lanes) {
      double busy_us = 0;
      const Lanes::Span* longest = nullptr;
      for (const Lanes::Span& span : lane.spans) {
        busy_us += span.duration_us;
        if (longest == nullptr || span.duration_us > longest->duration_us) longest = &span;
      }
      table.rows.push_back(
          {str(rank.rank, rank.host.empty() ? "" : str(" (", rank.host, ")")), lane.name,
           shown(busy_us * kMicro, Quantity::kSeconds), str(lane.spans.size()),
           longest == nullptr
               ? "-"
               : str(longest->label, " ", shown(longest->duration_us * kMicro, Quantity::kSeconds))});
    }
  }
  return table;
}

std::string lanes(const Lanes& lanes) {
  if (lanes.ranks.empty()) {
    return paragraph(
        "There is no profile of a step: `echelon train RECIPE --profile 10..12` records steps 10 to 12, with "
        "the lanes of every rank by unit.",
        "card");
  }
  double end_us = 0;
  std::vector<std::string> kinds;
  for (const Lanes::Rank& rank : lanes.ranks) {
    for (const Lanes::Lane& lane : rank.lanes) {
      if (std::ranges::find(kinds, lane.name) == kinds.end()) kinds.push_back(lane.name);
      for (const Lanes::Span& span : lane.spans) end_us = std::max(end_us, span.begin_us + span.duration_us);
    }
  }
  std::vector<Key> keys;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    keys.push_back({kinds[i], static_cast<int>(i) % kStyles, Key::Mark::kArea});
  std::vector<TimeRow> rows;
  constexpr std::size_t kMostRows = 32;
  constexpr double kPixels = 1000;
  for (const Lanes::Rank& rank : lanes.ranks) {
    for (const Lanes::Lane& lane : rank.lanes) {
      const auto kind = std::ranges::find(kinds, lane.name) - kinds.begin();
      if (!lane.spans.empty() && rows.size() < kMostRows)
        rows.push_back(
            row_of(lane, str(rank.rank, " ", lane.name), static_cast<int>(kind) % kStyles, end_us / kPixels));
    }
  }
  const std::string steps = lanes.first_step == lanes.last_step
                                ? str("step ", lanes.first_step)
                                : str("steps ", lanes.first_step, " to ", lanes.last_step);
  return time_chart(
      {.id = "lanes",
       .title = str("Lanes of ", steps),
       .description = "What each rank computed and communicated, on one clock; a span is a unit.",
       .note = "profile/trace.json has every operation: open it in Perfetto.",
       .wide = true},
      keys, rows, {}, 0, end_us * kMicro, busiest(lanes));
}

}  // namespace

std::string step_time(const RunView& view) {
  const Spread ranks = spread(view);
  return section("step-time", "Step time",
                 ranks.html + breakdown(view.metrics) + ranks.charts + lanes(view.run.lanes));
}

}  // namespace echelon::report
