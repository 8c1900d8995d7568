#pragma once
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/supervise/clear_nodes.h"
#include "app/supervise/job_history.h"
#include "app/supervise/next_job_state.h"
#include "app/supervise/options.h"
#include "app/supervise/rank_step.h"
#include "app/supervise/slurm_job.h"
#include "liveness/record.h"
#include "run/signals.h"
#include "run/start_notes.h"

namespace echelon::supervise {

/// Runs a job's ranks, restarts lost ones in place, and returns the job to the queue, as next_job_state()
/// says. One for each process. Not thread-safe.
class Supervisor {
 public:
  /// Checks the job and the run's folder before anything starts. Throws Error(kUsage, kEnvironment).
  explicit Supervisor(Options options);

  /// To the end of this start of the job. Returns the exit code of the job.
  [[nodiscard]] int run();

 private:
  void check_nodes();
  void ask_program();
  void begin_notes();
  void ask_slurm();

  // What is done in each state.
  void start_ranks();
  void watch_ranks();
  void note_loss();
  void clear();
  void restart();
  void look_at_queue();
  void requeue(const std::string& reason);
  void hold(const std::string& reason);

  /// Asks until there is an answer, for as long as Slurm's controller may be away; false: there is none.
  /// Says `meanwhile` once, and `in_vain` at the end.
  [[nodiscard]] bool ask_for_minutes(const std::function<std::optional<bool>()>& ask,
                                     const std::string& meanwhile, const std::string& in_vain) const;
  /// Waits for an answer of Slurm's controller, which may be away.
  [[nodiscard]] bool is_running() const;
  /// Repeats a command of Slurm, for minutes, until it is done; false, after a word in the log: it is not.
  /// `what`: "held".
  [[nodiscard]] bool insist(const std::string& what, const std::function<bool()>& command) const;

  /// Ends srun and notes the end of this start; `patience_s`: for it to end by itself.
  void end_ranks(double patience_s);
  void give_back_unclear_nodes();
  void begin_start(const std::map<std::string, std::string>& more);
  [[nodiscard]] bool has_failed();  ///< as far as the ranks' own watch has told

  void note(StartNote note);
  void say(const std::string& text) const;
  [[nodiscard]] std::filesystem::path logs() const;

  Options options_;
  StopSignal stop_;
  SlurmJob job_;
  JobFacts facts_;
  std::vector<StartNote> notes_;
  std::map<std::string, std::string> variables_;  ///< of all ranks of the job

  // State of the present start.
  std::string started_at_;  ///< "1772364600.123456": ranks account for the time since then
  std::string token_;
  std::optional<std::string> opening_;  ///< of the run folder, the last one before this start
  Nodes on_;                            ///< that ranks run on
  std::optional<RankStep> step_;
  std::optional<LostPeer> lost_;
  FailuresAtStep failures_;
  ClearNodes cleared_;

  std::future<void> giving_back_;
};

}  // namespace echelon::supervise
