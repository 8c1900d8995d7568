#include "report/record/run_log.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "base/str.h"
#include "report/record/files.h"
#include "report/record/log_line.h"
#include "run/start_notes.h"

namespace echelon::report {
namespace {

constexpr std::uint64_t kHead = std::uint64_t{2} << 20;
constexpr std::uint64_t kTail = std::uint64_t{30} << 20;
constexpr std::uint64_t kMostNotes = std::uint64_t{16} << 20;
constexpr std::size_t kMostEvents = 4000;
constexpr std::size_t kMostFiles = 1000;
constexpr double kSame_s = 60;  ///< within which two files tell of one failure

/// "echelon: rank 0/8 n0: sentence", or "echelon: sentence" of a run of one rank, without what every error
/// line begins with.
std::string without_rank(const std::string& text) {
  constexpr std::string_view kName = "echelon: ";
  if (!text.starts_with(kName)) return text;
  const std::string rest = text.substr(kName.size());
  const std::size_t end = rest.starts_with("rank ") ? rest.find(": ") : rest.npos;
  return end == rest.npos ? rest : rest.substr(end + 2);
}

/// Takes what a line of rank 0's log says.
void take(std::string_view written, RunLog& log) {
  constexpr std::size_t kMostIntroduced = 12;
  const auto line = parse_log_line(written);
  if (!line) return;
  log.host = line->host;
  const std::string& text = line->text;
  const auto event = [&](EventKind kind, const std::string& said) {
    if (log.events.size() < kMostEvents) log.events.push_back({line->time_s, kind, said});
  };
  if (text.starts_with("step ") && line->level == 'I') {
    long long step = 0;
    long long steps = 0;
    if (std::sscanf(text.c_str(), "step %lld/%lld ", &step, &steps) == 2 && step >= 0 && steps >= 0)
      log.steps = steps;
  } else if (const auto save = parse_save(*line)) {
    if (log.saves.size() < kMostEvents) log.saves.push_back(*save);
  } else if (is_introduction(text)) {
    log.environment.assign(1, text);
  } else if (is_environment(text)) {
    if (log.environment.size() < kMostIntroduced) log.environment.push_back(text);
  } else if (text.starts_with("resumed from step")) {
    event(EventKind::kResumed, text);
  } else if (text.starts_with("stopping after step") || text.starts_with("stopped during")) {
    event(EventKind::kStopped, text);
  } else if (text.starts_with("step ") && text.find(" was not saved") != text.npos) {
    event(EventKind::kSaveFailed, text);
  } else if (line->level == 'E') {
    event(EventKind::kFailed, without_rank(text));
  } else if (line->level == 'W') {
    event(EventKind::kWarning, text);
  }
}

/// "EPOCH WORD WORD sentence"
struct DatedSentence {
  std::string word;  ///< the first
  Event event;
};
std::optional<DatedSentence> dated_sentence(std::string_view line) {
  std::istringstream words{std::string(line)};
  double time_s = 0;
  std::string first, second, sentence;
  if (!(words >> time_s >> first >> second) || !std::getline(words >> std::ws, sentence) ||
      !std::isfinite(time_s))
    return std::nullopt;
  return DatedSentence{first, {time_s, EventKind::kFailed, sentence}};
}

/// An event with the text of `event` at about its time; null: none does.
Event* find_same(RunLog& log, const Event& event) {
  const auto found = std::ranges::find_if(log.events, [&](const Event& other) {
    return std::fabs(other.time_s - event.time_s) < kSame_s &&
           other.text.find(event.text) != std::string::npos;
  });
  return found == log.events.end() ? nullptr : &*found;
}

void add_sentences(const fs::Path& run, RunLog& log, Missing& missing) {
  const auto add = [&](const std::optional<Event>& event) {
    if (event && log.events.size() < 2 * kMostEvents && find_same(log, *event) == nullptr)
      log.events.push_back(*event);
  };
  /// The same verdict names the node that the next start leaves out.
  const auto add_suspect = [&](std::string_view line) {
    const auto suspect = dated_sentence(line);
    if (!suspect) return;
    Event* same = find_same(log, suspect->event);
    const std::string node = str("node ", suspect->word, " is suspected");
    if (same != nullptr)
      same->text += "; " + node;
    else
      add(Event{suspect->event.time_s, EventKind::kSuspect, str(node, ": ", suspect->event.text)});
  };
  const fs::Path logs = run / "logs";
  if (const auto text = read_if_there(logs / "peer-failure.txt", kMostNotes, missing)) {
    if (const auto failure = dated_sentence(std::string_view(*text).substr(0, text->find('\n'))))
      add(failure->event);
  }
  if (const auto text = read_if_there(logs / "suspects.txt", kMostNotes, missing))
    each_line(*text, add_suspect);
  if (const auto text = read_if_there(logs / "restarts.jsonl", kMostNotes, missing))
    each_line(*text, [&](std::string_view line) { add(restart_in_place(line)); });
}

void add_notes(const fs::Path& run, RunLog& log, Missing& missing) {
  constexpr std::string_view kBefore = "starts-";
  constexpr std::string_view kBehind = ".txt";
  std::size_t files = 0;
  for (const std::string& name : names_in(run / "logs", missing)) {
    if (!name.starts_with(kBefore) || !name.ends_with(kBehind) || ++files > kMostFiles) continue;
    const std::string job = name.substr(kBefore.size(), name.size() - kBefore.size() - kBehind.size());
    const auto text = read_if_there(run / "logs" / name, kMostNotes, missing);
    if (!text) continue;
    for (const StartNote& note : start_notes(*text)) {
      if (note.kind == StartNote::Kind::kStart) {
        log.noted.push_back({.job = job, .began_s = note.time_s});
      } else if (note.kind == StartNote::Kind::kEnd && !log.noted.empty() && log.noted.back().job == job) {
        log.noted.back().ended_s = note.time_s;
        log.noted.back().code = note.code;
      }
    }
  }
}

/// The first line of each start in a job's output that says what ended it.
std::vector<std::string> causes_in_output(const fs::Path& run, const std::string& job) {
  Missing ignored;
  const HeadAndTail output = read_ends(run / "logs" / str("slurm-", job, ".out"), kHead, kTail, ignored);
  std::vector<std::string> causes;
  if (!output.tail.empty()) return causes;  // starts in the middle are not known
  each_line(output.head, [&](std::string_view line) {
    if (is_introduction(line)) {
      causes.emplace_back();
    } else if (!causes.empty() && causes.back().empty() && line.starts_with("echelon: ") &&
               !line.starts_with("echelon: job ")) {
      causes.back() = without_rank(std::string(line));
    }
  });
  return causes;
}

bool ends_start(const Event& event) {
  return event.kind == EventKind::kStopped || event.kind == EventKind::kFailed ||
         event.kind == EventKind::kRestarted;
}

}  // namespace

RunLog read_logs(const fs::Path& run, Missing& missing) {
  RunLog log;
  const auto take_line = [&](std::string_view line) { take(line, log); };
  const HeadAndTail text = read_ends(run / "logs" / "rank-0.log", kHead, kTail, missing);
  each_line(text.head, take_line);
  each_line(text.tail, take_line);
  if (!text.tail.empty())
    missing.emplace_back("the middle of logs/rank-0.log is not read: the file is longer than 32 MiB");
  add_sentences(run, log, missing);
  add_notes(run, log, missing);
  std::ranges::stable_sort(log.events, {}, &Event::time_s);
  return log;
}

void name_sources(const RunLog& log, std::vector<Start>& starts) {
  for (const Event& event : log.events) {
    if (event.kind != EventKind::kResumed || event.text.find(" (memory of ") == event.text.npos) continue;
    for (Start& start : starts)
      start.from_memory |= event.time_s >= start.began_s && event.time_s <= start.ended_s;
  }
}

void name_causes(const fs::Path& run, const RunLog& log, std::vector<Start>& starts) {
  constexpr double kLate_s = 120;  // a verdict is written before the ranks have left, a note after it
  std::map<std::string, std::vector<std::string>> outputs;
  std::map<std::string, std::size_t> starts_of;
  for (const Start& start : starts) ++starts_of[start.job];
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    Start& start = starts[i];
    const std::size_t number = seen[start.job]++;
    if (start.end == "finished" || start.end == "running") continue;
    const double next_s = i + 1 < starts.size() ? starts[i + 1].began_s : start.ended_s + kLate_s;
    const double until_s = std::max(start.ended_s, std::min(next_s, start.ended_s + kLate_s));
    for (const Event& event : log.events) {
      // A restart in place tells what ended the start before it.
      const double from_s = event.kind == EventKind::kRestarted ? start.ended_s - 1 : start.began_s;
      if (ends_start(event) && event.time_s >= from_s && event.time_s <= until_s) start.cause = event.text;
    }
    if (!start.cause.empty() || start.job.empty()) continue;
    if (!outputs.contains(start.job)) outputs[start.job] = causes_in_output(run, start.job);
    const std::vector<std::string>& causes = outputs[start.job];
    if (causes.size() == starts_of[start.job]) start.cause = causes[number];
  }
}

std::string host_of_rank(const fs::Path& run, std::int64_t rank) {
  constexpr std::uint64_t kFew = 4096;
  Missing ignored;
  const HeadAndTail text = read_ends(run / "logs" / str("rank-", rank, ".log"), kFew, 0, ignored);
  const auto line = parse_log_line(std::string_view(text.head).substr(0, text.head.find('\n')));
  return line ? line->host : "";
}

}  // namespace echelon::report
