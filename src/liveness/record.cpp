#include "liveness/record.h"

#include <fcntl.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <span>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/own_file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/utc_time.h"

namespace echelon {
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

/// The start that this process belongs to, as the batch script names it.
std::string this_start() {
  const std::string in_place = variable("ECHELON_RESTART_IN_PLACE", "");
  return str(variable("SLURM_JOB_ID", "-"), " ", variable("SLURM_RESTART_COUNT", "0"),
             in_place.empty() ? "" : ".", in_place);
}

/// "1795502802.123".
std::string thousandths(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::floor(seconds * 1e3));
  const std::string rest = std::to_string(1000 + whole % 1000);
  return str(whole / 1000, ".", rest.substr(1));
}

}  // namespace

void note_peer_failure(const std::filesystem::path& logs, const LostPeer& failure) {
  const std::filesystem::path path = logs / "peer-failure.txt";
  const std::string start = str(" ", this_start(), " ");
  const std::string token = variable("ECHELON_NOTE_TOKEN", "");
  try {
    // Ranks that lost rank 0 only suspect it: they do not overwrite the sentence of this start of the job.
    if (!failure.certain && std::filesystem::exists(path)) {
      const std::string old = fs::read_own_file(path, 8192, Code::kUsage);
      const auto space = old.find(' ');
      if (space != std::string::npos && old.compare(space, start.size(), start) == 0) return;
    }
    fs::publish_file(
        path,
        str(thousandths(utc_now_s()), start, failure.sentence, "\nfailed ", thousandths(failure.failed_s),
            " step ", failure.step > 0 ? std::to_string(failure.step) : "-", " rank ", failure.rank, " node ",
            failure.host, " suspect ", failure.node_suspect ? 1 : 0, token.empty() ? "" : " token ", token,
            "\n"),
        Code::kUsage);
  } catch (const Error& error) {
    log::warn(error.what());
  }
}

void note_suspect(const std::filesystem::path& logs, const std::string& host, const std::string& sentence) {
  const std::filesystem::path path = logs / "suspects.txt";
  const std::string line =
      str(std::time(nullptr), " ", host, " ", variable("SLURM_JOB_ID", "-"), " ", sentence, "\n");
  try {
    const fs::Fd file = fs::open_own(path, O_WRONLY | O_CREAT | O_APPEND, Code::kUsage);
    // O_APPEND writes at the end, whatever offset is given.
    fs::write_at(file, 0, std::as_bytes(std::span(line)), Code::kUsage, path);
  } catch (const Error& error) {
    log::warn(error.what());
  }
}

}  // namespace echelon
