#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/not_copied.h"
#include "run/goodput.h"

namespace echelon {

/// Keeps <run.dir>/goodput.json, which says where every second of a run went, over all its starts. Only rank
/// 0 has a file. A thread rewrites the whole file each time the start has become 0.5 % older (every 0.1 to
/// 5 s), so when the process is killed, the file misses at most that much. If the file cannot be written,
/// there is one warning. All functions may be called from any thread; only end() waits for the disk.
class Ledger : NotCopied {
 public:
  /// Describes the start that begins with this object.
  struct Start {
    RunStart run;       ///< its job, restart, ranks, began_s and in_place
    double ran_s = 0;   ///< since when its processes run
    bool held = false;  ///< the file is left as it is until begin(), and for good without it
  };
  /// Returns the start that this process belongs to, from Slurm's variables. It began at ECHELON_STARTED_AT,
  /// the time at which the batch script began it; if that is not set, when this process began. `hosts`: the
  /// host of each rank. A start in place has ECHELON_RESTART_IN_PLACE (1, 2, ...), ECHELON_FAILED_AT,
  /// ECHELON_RESTART_CAUSE and ECHELON_LEFT_OUT (nodes, with commas) from the batch script.
  [[nodiscard]] static Start this_start(const std::vector<std::string>& hosts);

  Ledger();  ///< without a file: never begins, and knows no earlier start
  /// Continues an existing file. Beside it, logs/restarts.jsonl lists each restart in place. A start without
  /// an end was killed. A file that cannot be read is renamed, with a warning. If the last start was of the
  /// same job, it lasted until all ranks had exited, as noted by the batch script (start_notes.h). `now_s`:
  /// seconds since 1970; never decreases.
  Ledger(std::filesystem::path file, Start start, std::function<double()> now_s);
  ~Ledger();  ///< end("failed") unless end() was called

  /// Adds this start to the file. Only the first call counts.
  void begin();
  /// Returns whether the file has this start.
  [[nodiscard]] bool has_begun() const;

  /// From now on, time counts as `spent`. Returns the use that it counted as before.
  Spent enter(Spent spent);
  /// The run continues from `step`: what earlier starts trained after it is lost.
  void resumed(std::int64_t step);
  void trained(std::int64_t step);
  /// Durations that later starts can expect; see earlier().
  void took(const Durations& durations);
  void saving(std::int64_t step);  ///< the state as it is now
  void saved(std::int64_t step);   ///< it is committed
  /// A peer's fault, which is noticed now, ends the run. Time from `time_s` (seconds since 1970) until now
  /// was spent on detecting it; what is left is leaving.
  void stood_still_since(double time_s);
  /// Ends the start: finished | stopped | failed. Only the first call counts. Returns when the file holds the
  /// end, or after a few seconds, because the disk may hang.
  void end(StartEnd how);

  /// Returns the times of steps, saves and validations. Each is from the latest earlier start with the same
  /// number of ranks that measured it.
  [[nodiscard]] Durations earlier() const;
  /// Returns how the start before this one ended; nothing if this is the first.
  [[nodiscard]] std::optional<StartEnd> last_end() const;
  [[nodiscard]] std::string summary() const;

 private:
  struct Book;
  /// Shared with the thread, which a disk may hold up for longer than this object lives.
  std::shared_ptr<Book> book_;
};

/// Time counts as `spent` as long as this object lives.
class SpentOn : NotCopied {
 public:
  SpentOn(Ledger& ledger, Spent spent) : ledger_(ledger), before_(ledger.enter(spent)) {}
  ~SpentOn() { ledger_.enter(before_); }

 private:
  Ledger& ledger_;
  Spent before_;
};

/// Seconds since 1970 that never decrease, even if the machine's clock is set.
[[nodiscard]] std::function<double()> steady_utc_clock();

}  // namespace echelon
