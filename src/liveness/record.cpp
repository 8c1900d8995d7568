#include "liveness/record.h"

#include <fcntl.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <span>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/log.h"
#include "base/number.h"
#include "base/process/process.h"
#include "base/str.h"
#include "base/utc_time.h"

namespace echelon {
namespace {

constexpr const char* kPeerFailure = "peer-failure.txt";
constexpr std::uint64_t kMostBytesOfNote = 8192;

/// The start that this process belongs to, as the batch script names it.
std::string this_start() {
  const std::string in_place = environment_variable("ECHELON_RESTART_IN_PLACE", "");
  return str(environment_variable("SLURM_JOB_ID", "-"), " ", environment_variable("SLURM_RESTART_COUNT", "0"),
             in_place.empty() ? "" : ".", in_place);
}

bool is_host(const std::string& text) {
  constexpr std::size_t kLongest = 255;
  return text.size() <= kLongest && std::ranges::all_of(text, belongs_in_name);
}

/// The words of a line, every second of which is the name of the one behind it; empty: they are others.
std::vector<std::string> values_of(const std::string& line, const std::vector<std::string>& names) {
  std::istringstream words(line);
  std::vector<std::string> values;
  std::string word;
  for (const std::string& name : names) {
    if (!(words >> word) || word != name || !(words >> word)) return {};
    values.push_back(word);
  }
  return words >> word ? std::vector<std::string>{} : values;
}

/// The failure in the two lines of a note.
std::optional<LostPeer> parse_failure(const std::string& text, const std::string& start,
                                      const std::string& token) {
  std::istringstream lines(text);
  std::string first;
  std::string second;
  if (!std::getline(lines, first) || !std::getline(lines, second)) return std::nullopt;
  const std::size_t time = first.find(' ');
  const std::string before = str(" ", start, " ");
  const auto values = values_of(second, {"failed", "step", "rank", "node", "suspect", "token"});
  if (time == first.npos || first.compare(time, before.size(), before) != 0 || values.empty() ||
      values[5] != token || token.empty() || !is_host(values[3]))
    return std::nullopt;
  LostPeer failure{.sentence = printable(first.substr(time + before.size()), 400),
                   .host = values[3],
                   .node_suspect = values[4] == "1"};
  std::int64_t rank = 0;
  const bool is_whole = read_number(values[0], failure.failed_s).empty() &&
                        (values[1] == "-" || read_integer(values[1], failure.step).empty()) &&
                        read_integer(values[2], rank).empty();
  failure.rank = static_cast<int>(rank);
  return is_whole && rank >= 0 ? std::optional(failure) : std::nullopt;
}

}  // namespace

void note_peer_failure(const std::filesystem::path& logs, const LostPeer& failure) {
  const std::filesystem::path path = logs / kPeerFailure;
  const std::string start = str(" ", this_start(), " ");
  const std::string token = environment_variable("ECHELON_NOTE_TOKEN", "");
  try {
    // Ranks that lost rank 0 only suspect it: they do not overwrite the sentence of this start of the job.
    std::error_code unknown;
    if (!failure.certain && std::filesystem::exists(path, unknown)) {
      const std::string old = fs::read_own_file(path, kMostBytesOfNote, Code::kEnvironment);
      const auto space = old.find(' ');
      if (space != std::string::npos && old.compare(space, start.size(), start) == 0) return;
    }
    fs::publish_file(
        path,
        str(in_thousandths(utc_now_s()), start, failure.sentence, "\nfailed ",
            in_thousandths(failure.failed_s), " step ", failure.step > 0 ? std::to_string(failure.step) : "-",
            " rank ", failure.rank, " node ", failure.host, " suspect ", failure.node_suspect ? 1 : 0,
            token.empty() ? "" : " token ", token, "\n"),
        Code::kEnvironment);
  } catch (const std::exception& error) {
    log::warn(error.what());
  }
}

std::optional<LostPeer> noted_peer_failure(const std::filesystem::path& logs, const std::string& start,
                                           const std::string& token) {
  try {
    const std::vector<fs::Path> names = fs::list_folder(logs, Code::kEnvironment);
    if (std::ranges::none_of(names, [](const fs::Path& path) { return path.filename() == kPeerFailure; }))
      return std::nullopt;
    return parse_failure(fs::read_own_file(logs / kPeerFailure, kMostBytesOfNote, Code::kEnvironment), start,
                         token);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void note_suspect(const std::filesystem::path& logs, const std::string& host, const std::string& sentence) {
  const std::filesystem::path path = logs / "suspects.txt";
  const std::string line =
      str(std::time(nullptr), " ", host, " ", environment_variable("SLURM_JOB_ID", "-"), " ", sentence, "\n");
  try {
    const fs::Fd file = fs::open_own(path, O_WRONLY | O_CREAT | O_APPEND, Code::kEnvironment);
    // O_APPEND writes at the end, whatever offset is given.
    fs::write_at(file, 0, std::as_bytes(std::span(line)), Code::kEnvironment, path);
  } catch (const std::exception& error) {
    log::warn(error.what());
  }
}

}  // namespace echelon
