#include "app/supervise/rank_step.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string_view>

#include "base/error.h"
#include "base/steady_time.h"
#include "base/str.h"

namespace echelon::supervise {

std::vector<std::string> rank_command(const StepPlace& place, const std::vector<std::string>& srun_options,
                                      const std::vector<std::string>& program) {
  // --wait: ranks notice one that died or hangs and end with 7; those that do not are ended a minute after
  // the first. Not at once by --kill-on-bad-exit=1: the first rank that ends with 85 would have Slurm kill
  // the others on their way out, and the step would count as killed.
  // --export=ALL: with `sbatch --export=...`, SLURM_EXPORT_ENV would keep from the ranks what is in this
  // process's environment, and so what they are told by it.
  // --cpu-bind=none, --gpu-bind=none: a rank picks its cores and its GPU by its local number; hiding the GPUs
  // of the node's other ranks from it would switch off direct copies between them.
  std::vector<std::string> command{"srun",         "--mpi=pmix",      "--kill-on-bad-exit=0", "--wait=60",
                                   "--export=ALL", "--cpu-bind=none", "--gpu-bind=none"};
  if (place.tasks_per_node > 0) {
    const auto nodes = static_cast<std::int64_t>(place.nodes.size());
    // --overlap, --no-kill: a step of which a dead node is still part does not hold back or end others.
    command.insert(command.end(), {str("--nodes=", nodes), str("--ntasks=", nodes * place.tasks_per_node),
                                   str("--ntasks-per-node=", place.tasks_per_node),
                                   "--nodelist=" + join(place.nodes, ","), "--overlap", "--no-kill"});
  }
  // Nothing else tells of a rank that dies before the ranks of a restart are connected.
  if (place.in_place) command.emplace_back("--wait=20");
  command.insert(command.end(), srun_options.begin(), srun_options.end());
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) variables.emplace_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) variables.push_back(str(name, "=", value));
  }
  return variables;
}

RankStep::RankStep(std::vector<std::string> command, std::vector<std::string> environment)
    : run_(std::async(std::launch::async, [command = std::move(command), environment = std::move(environment),
                                           stop = stop_.get_token(), this] {
        const ProgramRun run = run_program(command, {.stop = stop,
                                                     .on_start = [this](pid_t srun) { srun_ = srun; },
                                                     .own_group = false,
                                                     .output = ProgramOptions::Output::kInherited,
                                                     .environment = environment});
        srun_ = 0;
        return run;
      })) {}

// Srun passes SIGUSR2 on. At SIGTERM it would kill the ranks.
void RankStep::ask_to_stop() {
  constexpr double kBetween_s = 1;
  if (asked_s_ >= 0 && steady_now_s() - asked_s_ < kBetween_s) return;
  const pid_t srun = srun_;
  if (srun == 0) return;
  asked_s_ = steady_now_s();
  ::kill(srun, SIGUSR2);
}

bool RankStep::wait(double seconds) const {
  return !run_.valid() || run_.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready;
}

int RankStep::status() {
  const ProgramRun run = run_.get();
  if (!run.found) throw Error(Code::kEnvironment, "supervise: srun is not in PATH");
  return run.status;
}

}  // namespace echelon::supervise
