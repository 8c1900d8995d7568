#include "run/start_notes.h"

#include <cstdint>
#include <sstream>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/own_file.h"
#include "base/log.h"
#include "base/str.h"

namespace echelon {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

struct Note {
  enum class Kind { kStart, kEnd, kHeld, kOther } kind = Kind::kOther;
  double time_s = 0;
};

Note::Kind kind_of(const std::string& word) {
  if (word == "start") return Note::Kind::kStart;
  if (word == "end") return Note::Kind::kEnd;
  return word == "held" ? Note::Kind::kHeld : Note::Kind::kOther;
}

Note parse(const std::string& line) {
  std::istringstream words(line);
  std::string word, value, rest;
  words >> word;
  Note note{.kind = kind_of(word)};
  if (note.kind == Note::Kind::kStart || note.kind == Note::Kind::kEnd) words >> value;
  if (note.kind == Note::Kind::kOther || !(words >> note.time_s) || words >> rest) return {};
  return note;
}

}  // namespace

std::optional<double> noted_end(std::string_view notes, double running_s) {
  bool ran = false;  // whether the start of the previous lines was running at running_s
  while (!notes.empty()) {
    const std::size_t size = notes.find('\n');
    if (size == notes.npos) break;  // an incomplete last line
    const Note note = parse(std::string(notes.substr(0, size)));
    notes.remove_prefix(size + 1);
    if (note.kind == Note::Kind::kHeld) continue;
    if (ran && note.kind == Note::Kind::kEnd && note.time_s >= running_s) return note.time_s;
    ran = note.kind == Note::Kind::kStart && note.time_s <= running_s;
  }
  return std::nullopt;
}

std::optional<double> noted_end(const std::filesystem::path& run_dir, const std::string& job,
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
