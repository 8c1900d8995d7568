#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "run/goodput.h"

namespace echelon {

/// Keeps <run.dir>/goodput.json: where every second of a run went, over all its starts. Lives on rank 0. The
/// file is replaced whole, by a thread of the ledger, every 0.5 % of the start's age (0.1 to 5 s), so that it
/// is true to that much when the process is killed. A file that cannot be written is one warning. Functions
/// may be called from any thread and wait for no disk, but for end().
class Ledger {
 public:
  /// Of the start that begins with this object.
  struct Start {
    std::string job;
    std::int64_t restart = 0;
    std::int64_t ranks = 1;
    double began_s = 0;  ///< since 1970
  };
  /// The start that this process belongs to, from Slurm's variables and ECHELON_STARTED_AT, the time at which
  /// the batch script began; else the process's own.
  [[nodiscard]] static Start this_start(std::int64_t ranks);

  /// Takes up the file that is there; a start in it that never ended was killed. One that cannot be read is
  /// put aside with a warning. The last start in it lasted until its batch script says that all ranks were
  /// gone (start_notes.h), when that is of the same job. `now_s`: since 1970; never goes back.
  Ledger(std::filesystem::path file, Start start, std::function<double()> now_s);
  ~Ledger();  ///< end("failed") where nothing else was said
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// From now on time is spent on something else. Returns what it was spent on.
  Spent enter(Spent spent);
  /// The run goes on from `step`: what earlier starts trained after it is lost.
  void resumed(std::int64_t step);
  void trained(std::int64_t step);
  /// What is expected of later starts.
  void took(const Durations& durations);
  void saving(std::int64_t step);  ///< the state as it is now
  void saved(std::int64_t step);   ///< it is committed
  /// A peer's fault ends the run: since then (seconds since 1970) it stood still, and does so to its end.
  void stood_still_since(double time_s);
  /// The start is over: finished | stopped | failed. The first word counts. Returns when the file says so, or
  /// after a few seconds: the disk may be what hangs.
  void end(StartEnd how);

  /// What steps, saves and validations took: each in the last earlier start on as many ranks that knows.
  [[nodiscard]] Durations earlier() const;
  [[nodiscard]] bool has_earlier_starts() const;
  [[nodiscard]] std::string summary() const;

 private:
  struct Book;
  std::shared_ptr<Book>
      book_;  // shared with the thread, which a disk may hold up for longer than this object lives
};

/// Time is spent on something as long as this object lives. A null ledger keeps none.
class SpentOn {
 public:
  SpentOn(Ledger* ledger, Spent spent)
      : ledger_(ledger), before_(ledger != nullptr ? ledger->enter(spent) : spent) {}
  SpentOn(const SpentOn&) = delete;
  SpentOn& operator=(const SpentOn&) = delete;
  ~SpentOn() {
    if (ledger_ != nullptr) ledger_->enter(before_);
  }

 private:
  Ledger* ledger_;
  Spent before_;
};

/// Seconds since 1970 that never go back, whatever is done to the machine's clock.
[[nodiscard]] std::function<double()> steady_utc_clock();

}  // namespace echelon
