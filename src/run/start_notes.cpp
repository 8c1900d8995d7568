#include "run/start_notes.h"

#include <sstream>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/own_file.h"
#include "base/log.h"
#include "base/str.h"

namespace echelon {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

StartNote::Kind kind_of(const std::string& word) {
  if (word == "start" || word == "restart") return StartNote::Kind::kStart;
  if (word == "lost") return StartNote::Kind::kLost;
  if (word == "end") return StartNote::Kind::kEnd;
  return word == "held" ? StartNote::Kind::kHeld : StartNote::Kind::kOther;
}

StartNote parse(const std::string& line) {
  std::istringstream words(line);
  std::string word, rest;
  words >> word;
  StartNote note{.kind = kind_of(word)};
  const bool has_value = note.kind == StartNote::Kind::kStart || note.kind == StartNote::Kind::kEnd;
  if (has_value && !(words >> note.value)) return {};
  std::string step, rank, node;
  if (note.kind == StartNote::Kind::kLost) words >> step >> rank >> node;
  if (note.kind == StartNote::Kind::kOther || !(words >> note.time_s) || words >> rest) return {};
  return note;
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

std::optional<NotedEnd> noted_end(std::string_view notes, double running_s) {
  bool ran = false;  // whether the start of the previous lines was running at running_s
  std::optional<double> lost_s;
  for (const StartNote& note : start_notes(notes)) {
    if (note.kind == StartNote::Kind::kHeld) continue;
    if (ran && note.kind == StartNote::Kind::kLost) {
      lost_s = note.time_s;
      continue;
    }
    if (ran && note.kind == StartNote::Kind::kEnd && note.time_s >= running_s)
      return NotedEnd{.gone_s = note.time_s, .lost_s = lost_s};
    lost_s.reset();
    ran = note.kind == StartNote::Kind::kStart && note.time_s <= running_s;
  }
  return std::nullopt;
}

std::optional<NotedEnd> noted_end(const std::filesystem::path& run_dir, const std::string& job,
                                  double running_s) {
  const std::filesystem::path file = run_dir / "logs" / str("starts-", job, ".txt");
  try {
    if (!std::filesystem::exists(file)) return std::nullopt;  // not our batch script
    return noted_end(fs::read_own_file(file, kMostBytes, Code::kUsage), running_s);
  } catch (const std::exception& e) {  // the disk's troubles; the run does not need this file
    log::note(str("cannot read when the last start ended: ", e.what()));
  }
  return std::nullopt;
}

}  // namespace echelon
