#pragma once
#include <sys/types.h>

#include <atomic>
#include <future>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "app/supervise/nodes.h"
#include "base/not_copied.h"
#include "base/process/program.h"

namespace echelon::supervise {

/// Where ranks run; 0 tasks per node: as Slurm's own variables say.
struct StepPlace {
  Nodes nodes;
  std::int64_t tasks_per_node = 0;
  bool in_place = false;  ///< a restart
};

/// The srun command of a step of the job.
[[nodiscard]] std::vector<std::string> rank_command(const StepPlace& place,
                                                    const std::vector<std::string>& srun_options,
                                                    const std::vector<std::string>& program);

/// This process's environment with those variables; an empty text removes one.
[[nodiscard]] std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes);

/// The ranks of one start: an srun that runs beside the supervisor.
class RankStep : NotCopied {
 public:
  RankStep(std::vector<std::string> command, std::vector<std::string> environment);
  ~RankStep() { abandon(); }

  /// Waits for the end of srun for at most `seconds`; true: it has ended.
  [[nodiscard]] bool wait(double seconds) const;
  /// Waits for the end of srun. The highest exit code of a rank, or srun's own; over 128: a signal.
  [[nodiscard]] int status();
  /// Passes a request to stop on to the ranks, at most once a second. To be repeated: what comes before the
  /// ranks have started is lost, or ends srun.
  void ask_to_stop();
  /// Kills srun, which would wait for a dead node; its own helper process then ends the ranks.
  void abandon() { stop_.request_stop(); }

 private:
  std::stop_source stop_;
  std::atomic<pid_t> srun_ = 0;  ///< 0: it does not run
  double asked_s_ = -1;          ///< steady_now_s() of the last request
  std::future<ProgramRun> run_;
};

}  // namespace echelon::supervise
