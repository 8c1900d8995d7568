#include "run/start_notes.h"

#include <sstream>

#include "base/error.h"
#include "base/files/own_file.h"
#include "base/log.h"
#include "base/number.h"
#include "base/process/process.h"
#include "base/str.h"
#include "base/utc_time.h"

namespace echelon {
namespace {

constexpr std::uint64_t kMostBytesOfNotes = std::uint64_t{16} << 20;

using Kind = StartNote::Kind;

constexpr std::string_view kUnknown = "-";

Kind kind_of(const std::string& word) {
  if (word == "start" || word == "restart") return Kind::kStart;
  if (word == "lost") return Kind::kLost;
  if (word == "end") return Kind::kEnd;
  if (word == "left-out") return Kind::kLeftOut;
  return word == "held" ? Kind::kHeld : Kind::kOther;
}

/// Reads a number, or "-", which leaves `value` as it is.
bool read_known(std::istream& words, std::int64_t& value) {
  std::string word;
  return (words >> word) && (word == kUnknown || read_integer(word, value).empty());
}

StartNote parse(const std::string& line) {
  std::istringstream words(line);
  std::string word, rest;
  words >> word;
  StartNote note{.kind = kind_of(word), .in_place = word == "restart"};
  bool whole = note.kind != Kind::kOther;
  if (note.kind == Kind::kStart) whole = bool(words >> note.step);
  if (note.kind == Kind::kEnd) whole = bool(words >> note.code);
  if (note.kind == Kind::kLeftOut) whole = bool(words >> note.node);
  if (note.kind == Kind::kLost)
    whole = read_known(words, note.step) && read_known(words, note.rank) && bool(words >> note.node);
  if (note.node == kUnknown) note.node.clear();
  return whole && words >> note.time_s && !(words >> rest) ? note : StartNote{};
}

std::string or_unknown(bool known, const std::string& text) {
  return known ? text : std::string(kUnknown);
}

/// What stands before the time.
std::string words_of(const StartNote& note) {
  switch (note.kind) {
    case Kind::kStart: return str(note.in_place ? "restart " : "start ", note.step, " ");
    case Kind::kLost:
      return str("lost ", or_unknown(note.step > 0, str(note.step)), " ",
                 or_unknown(note.rank >= 0, str(note.rank)), " ", or_unknown(!note.node.empty(), note.node),
                 " ");
    case Kind::kEnd: return str("end ", note.code, " ");
    case Kind::kLeftOut: return str("left-out ", note.node, " ");
    case Kind::kHeld: return "held ";
    case Kind::kOther: break;
  }
  return "other ";
}

}  // namespace

std::vector<StartNote> start_notes(std::string_view text) {
  std::vector<StartNote> notes;
  while (!text.empty()) {
    const std::size_t size = text.find('\n');
    if (size == text.npos) break;  // an incomplete last line
    notes.push_back(parse(std::string(text.substr(0, size))));
    text.remove_prefix(size + 1);
  }
  return notes;
}

std::string to_line(const StartNote& note) {
  return str(words_of(note), in_thousandths(note.time_s), "\n");
}

std::string this_job() {
  const std::string array = environment_variable("SLURM_ARRAY_JOB_ID");
  return array.empty() ? environment_variable("SLURM_JOB_ID")
                       : array + "_" + environment_variable("SLURM_ARRAY_TASK_ID");
}

std::filesystem::path start_notes_file(const std::filesystem::path& run_dir, const std::string& job) {
  return run_dir / "logs" / str("starts-", job, ".txt");
}

std::optional<NotedEnd> noted_end(std::string_view notes, double running_s) {
  bool ran = false;  // whether the start of the previous lines was running at running_s
  std::optional<double> lost_s;
  for (const StartNote& note : start_notes(notes)) {
    if (note.kind == Kind::kHeld) continue;
    if (ran && note.kind == Kind::kLost) {
      lost_s = note.time_s;
      continue;
    }
    if (ran && note.kind == Kind::kEnd && note.time_s >= running_s)
      return NotedEnd{.gone_s = note.time_s, .lost_s = lost_s};
    lost_s.reset();
    ran = note.kind == Kind::kStart && note.time_s <= running_s;
  }
  return std::nullopt;
}

std::optional<NotedEnd> noted_end(const std::filesystem::path& run_dir, const std::string& job,
                                  double running_s) {
  const std::filesystem::path file = start_notes_file(run_dir, job);
  try {
    if (!std::filesystem::exists(file)) return std::nullopt;  // not our supervisor
    return noted_end(fs::read_own_file(file, kMostBytesOfNotes, Code::kEnvironment), running_s);
  } catch (const std::exception& e) {  // the disk's troubles; the run does not need this file
    log::note(str("cannot read when the last start ended: ", e.what()));
  }
  return std::nullopt;
}

}  // namespace echelon
