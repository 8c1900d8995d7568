#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/str.h"
#include "report/charts/rows.h"
#include "report/page/sections.h"

namespace echelon::report {
namespace {

constexpr std::size_t kMostListed = 200;

/// The end of a start, and the style of its span.
constexpr std::array<std::pair<std::string_view, int>, 5> kEnds{
    {{"running", 0}, {"finished", 2}, {"stopped", 4}, {"failed", 1}, {"killed", 5}}};
constexpr int kSaveStyle = 3;

int style_of(const std::string& end) {
  for (const auto& [word, style] : kEnds) {
    if (word == end) return style;
  }
  return 7;
}

const char* word_for(EventKind kind) {
  switch (kind) {
    case EventKind::kResumed: return "resumed";
    case EventKind::kStopped: return "stopped";
    case EventKind::kFailed: return "failure";
    case EventKind::kRestarted: return "restart in place";
    case EventKind::kSaveFailed: return "failed save";
    case EventKind::kSuspect: return "suspect";
    case EventKind::kWarning: return "warning";
  }
  return "";
}

/// Events to which the eye must be led.
std::vector<Event> notable(const RunLog& log) {
  std::vector<Event> events;
  for (const Event& event : log.events) {
    if (event.kind != EventKind::kWarning && event.kind != EventKind::kResumed) events.push_back(event);
  }
  return events;
}

std::string time_axis(const RunRecord& run, const std::vector<Event>& events, double now_s) {
  double from_s = run.starts.front().began_s;
  double to_s = run.starts.front().ended_s;
  std::map<std::string, TimeRow> jobs;
  std::vector<Key> keys;
  for (std::size_t i = 0; i < run.starts.size(); ++i) {
    const Start& start = run.starts[i];
    const double end_s = start.end == "running" && run.state == RunState::kRunning
                             ? std::max(start.ended_s, std::min(now_s, start.ended_s + 60))
                             : start.ended_s;
    to_s = std::max(to_s, end_s);
    constexpr std::size_t kMostRows = 8;
    const std::string name = start.job.empty() ? "starts" : "job " + start.job;
    const bool known = jobs.contains(name) || jobs.size() < kMostRows;
    TimeRow& row = jobs[known ? name : "further jobs"];
    row.name = known ? name : "further jobs";
    row.spans.push_back({start.began_s, end_s, style_of(start.end),
                         str("start ", i + 1, ": ", start.end, ", ", shown_time(end_s - start.began_s),
                             ", steps ", start.first_step, " to ", start.last_step)});
    if (std::ranges::none_of(keys, [&](const Key& key) { return key.name == start.end; }))
      keys.push_back({start.end, style_of(start.end), Key::Mark::kArea});
  }
  TimeRow saves{.name = "saves"};
  for (const Save& save : run.log.saves) {
    if (save.time_s >= from_s - 1 && save.time_s <= to_s + 60)
      saves.spans.push_back({save.time_s - save.seconds, save.time_s, kSaveStyle,
                             str("step ", save.step, ": ", shown(save.seconds, Quantity::kSeconds))});
  }
  std::vector<TimeRow> rows;
  for (auto& [name, row] : jobs) rows.push_back(std::move(row));
  if (!saves.spans.empty()) {
    rows.push_back(std::move(saves));
    keys.push_back({"save", kSaveStyle, Key::Mark::kArea});
  }
  Table data{.columns = {"row", "from", "lasted", "what"}};
  for (const TimeRow& row : rows) {
    for (const TimeRow::Span& span : row.spans) {
      if (data.rows.size() < kMostListed)
        data.rows.push_back({row.name, str(shown_time(span.begin_s - from_s), " after the begin"),
                             shown_time(span.end_s - span.begin_s), span.text});
    }
  }
  std::vector<TimeMark> marks;
  for (std::size_t i = 0; i < events.size(); ++i)
    marks.push_back({events[i].time_s, str(i + 1), str(word_for(events[i].kind), ": ", events[i].text)});
  return time_chart(
      {.id = "life-axis",
       .title = "Starts, saves and failures",
       .description = str("From ", shown_utc(from_s),
                          " on; the numbers are explained below. In the gaps of a job it was queued."),
       .wide = true},
      keys, rows, marks, from_s, to_s, data);
}

/// "8 (requeue 1, restart in place 2)"; `in_place`: how many starts in place this allocation has had.
std::string job_of(const Start& start, int in_place) {
  std::vector<std::string> again;
  if (start.restart > 0) again.push_back(str("requeue ", start.restart));
  if (start.in_place) again.push_back(str("restart in place ", in_place));
  return str(start.job.empty() ? "-" : start.job, again.empty() ? "" : str(" (", join(again, ", "), ")"));
}

std::string starts_table(const RunRecord& run) {
  int in_place = 0;
  Table table{.columns = {"start", "job", "began", "lasted", "ranks", "steps", "saved to disk", "end", "why"},
              .caption = "Starts"};
  for (std::size_t i = 0; i < run.starts.size() && i < kMostListed; ++i) {
    const Start& start = run.starts[i];
    std::string why = start.cause;
    if (why.empty() && start.end == "killed") why = "it left no word: killed, or its node was lost";
    if (why.empty() && start.end == "failed") why = "no file of the run names the cause";
    in_place = start.in_place ? in_place + 1 : 0;
    table.rows.push_back(
        {str(i + 1), job_of(start, in_place), shown_utc(start.began_s),
         shown_time(start.ended_s - start.began_s), str(start.ranks),
         str(start.first_step, start.from_memory ? " (from memory)" : "", " to ", start.last_step),
         start.saved_step == start.first_step && start.from_memory ? "-" : str(start.saved_step), start.end,
         why});
  }
  if (run.starts.size() > kMostListed)
    table.caption += str(": the first ", kMostListed, " of ", run.starts.size());
  return html_table(table, "wrapped");
}

std::string events_table(const std::vector<Event>& events, double from_s) {
  Table table{.columns = {"no.", "time", "after", "what", "sentence"}, .caption = "What happened"};
  for (std::size_t i = 0; i < events.size() && i < kMostListed; ++i)
    table.rows.push_back({str(i + 1), shown_utc(events[i].time_s), shown_time(events[i].time_s - from_s),
                          word_for(events[i].kind), events[i].text});
  if (events.size() > kMostListed) table.caption += str(": the first ", kMostListed, " of ", events.size());
  return events.empty() ? paragraph("No stop, failure or failed save is recorded.", "note")
                        : html_table(table, "wrapped");
}

/// Equal texts once, with their number.
std::string warnings(const RunLog& log) {
  struct Seen {
    double first_s = 0;
    double last_s = 0;
    std::size_t count = 0;
  };
  std::map<std::string, Seen> seen;
  for (const Event& event : log.events) {
    if (event.kind != EventKind::kWarning) continue;
    Seen& one = seen[event.text];
    if (one.count++ == 0) one.first_s = event.time_s;
    one.last_s = event.time_s;
  }
  if (seen.empty()) return "";
  Table table{.columns = {"warning", "times", "first", "last"}};
  for (const auto& [text, one] : seen) {
    if (table.rows.size() < kMostListed)
      table.rows.push_back({text, str(one.count), shown_utc(one.first_s), shown_utc(one.last_s)});
  }
  return str("<details class=\"wide\"><summary>", seen.size(),
             seen.size() == 1 ? " warning" : " different warnings", "</summary>",
             html_table(table, "wrapped"), "</details>");
}

std::string checkpoints(const RunRecord& run) {
  struct Row {
    double time_s = 0;
    const Save* save = nullptr;
    bool on_disk = false;
  };
  std::map<std::int64_t, Row> rows;
  for (const Save& save : run.log.saves) rows[save.step] = {save.time_s, &save, false};
  for (const Checkpoint& one : run.checkpoints) {
    Row& row = rows[one.step];
    row.on_disk = true;
    if (row.save == nullptr) row.time_s = one.time_s;
  }
  if (rows.empty() && run.unfinished.empty()) return paragraph("No checkpoint was committed.", "note");
  Table table{.columns = {"step", "committed", "took", "training waited", "on disk"}};
  std::size_t kept = 0;
  for (const auto& [step, row] : rows) {
    kept += row.on_disk ? 1 : 0;
    if (table.rows.size() >= kMostListed) continue;
    table.rows.push_back({shown(static_cast<double>(step), Quantity::kStep), shown_utc(row.time_s),
                          row.save == nullptr ? "-" : shown(row.save->seconds, Quantity::kSeconds),
                          row.save == nullptr ? "-" : shown(row.save->stall_s, Quantity::kSeconds),
                          row.on_disk ? "yes" : "no"});
  }
  std::string html = str("<details class=\"wide\"><summary>", rows.size(), " checkpoints, ", kept,
                         " on disk</summary>", html_table(table, "data"), "</details>");
  if (!run.unfinished.empty())
    html += paragraph(
        str("Saves without a commit (under way, or given up): ", join(run.unfinished, ", "), "."), "note");
  return html;
}

}  // namespace

std::string life(const RunView& view) {
  const RunRecord& run = view.run;
  const std::vector<Event> events = notable(run.log);
  std::string html;
  if (!run.starts.empty()) html += time_axis(run, events, run.changed_s);
  html += "<div class=\"wide\">" + events_table(events, run.starts.empty()
                                                            ? (events.empty() ? 0 : events[0].time_s)
                                                            : run.starts.front().began_s);
  if (!run.starts.empty()) html += starts_table(run);
  return section("life", "Starts, checkpoints and failures",
                 html + "</div>" + checkpoints(run) + warnings(run.log));
}

}  // namespace echelon::report
