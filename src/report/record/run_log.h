#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/fs.h"
#include "report/record/life.h"
#include "report/record/missing.h"

namespace echelon::report {

enum class EventKind : std::uint8_t {
  kResumed,
  kStopped,
  kFailed,
  kRestarted,
  kSaveFailed,
  kSuspect,
  kWarning
};

/// Something that happened to a run, in a sentence.
struct Event {
  double time_s = 0;  ///< since 1970
  EventKind kind = EventKind::kWarning;
  std::string text;
};

/// A save that ended in a commit.
struct Save {
  double time_s = 0;
  std::int64_t step = 0;
  double seconds = 0;
  double stall_s = 0;  ///< that training waited
};

/// The content of the texts in logs/. Long files are read at their ends only. All texts are untrusted.
struct RunLog {
  std::vector<Event> events;  ///< by time
  std::vector<Save> saves;
  std::vector<std::string> environment;  ///< what the newest start says of program, machine, model and data
  std::optional<std::int64_t> steps;     ///< planned
  std::string host;                      ///< of rank 0
  std::vector<NotedStart> noted;         ///< logs/starts-JOB.txt
};

[[nodiscard]] RunLog read_logs(const fs::Path& run, Missing& missing);

/// Says of each start that did not finish why it ended, from `log`; for jobs of a batch script also from
/// logs/slurm-JOB.out.
void name_causes(const fs::Path& run, const RunLog& log, std::vector<Start>& starts);

/// Says of each start whether it went on from memory.
void name_sources(const RunLog& log, std::vector<Start>& starts);

/// The node of a rank, from the beginning of its log; empty: not known.
[[nodiscard]] std::string host_of_rank(const fs::Path& run, std::int64_t rank);

}  // namespace echelon::report
