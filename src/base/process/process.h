#pragma once
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

/// Processes of this machine, and programs that can be run on it.
namespace echelon {

struct ProcessInfo {
  char state = '?';  ///< as proc(5) has it: 'T' for one that a signal has stopped
  pid_t parent = 0;
  std::uint64_t start = 0;  ///< clock ticks between boot and the start of the process; with the process id,
                            ///< it distinguishes it from a later one with the same id
};

/// Reads /proc. Returns nothing when there is no such process.
[[nodiscard]] std::optional<ProcessInfo> process_info(pid_t pid);

/// The scope of process ids, or of another kind of namespace ("net"), as one line: "boot <id> space
/// <number>". Equal only on one machine since its boot and in one namespace; host names are not enough,
/// because machines and containers share them. Empty if unknown.
[[nodiscard]] std::string process_space(const std::string& kind = "pid");

/// Start time of this process in seconds since 1970, to about a hundredth; now, if unknown.
[[nodiscard]] double process_began_s();

/// The file of this program, without links. Throws Error(kEnvironment) on a machine without /proc.
[[nodiscard]] std::filesystem::path own_program();

/// Path of an executable file: `name` itself when it holds a slash, else found in PATH. Empty: there is none.
[[nodiscard]] std::string find_program(const std::string& name);

/// The variable of this process's environment; where it is not set, `otherwise`.
[[nodiscard]] std::string environment_variable(const char* name, const char* otherwise = "");

/// Empty if unknown.
[[nodiscard]] std::string host_name();

/// The Slurm job of this process for people: " (Slurm job 5)", or " (Slurm job 5, requeue 2)"; empty outside
/// of Slurm.
[[nodiscard]] std::string describe_this_job();
/// Did the supervisor of this Slurm job start this process after ranks of the same start of it were lost?
[[nodiscard]] bool restarts_in_place();
/// Has this Slurm job started before: was it requeued, or do its ranks start again in place?
[[nodiscard]] bool is_later_start_of_job();
/// Describes this process for people: "process 12 on node-3 (Slurm job 5)".
[[nodiscard]] std::string describe_this_process();

/// Returns whether this is rank 0 of its srun or mpirun step, as far as the environment tells. True outside
/// of a step.
[[nodiscard]] bool first_of_step();

/// Lets almost everything else on this machine run before this thread (nice 19): it gets 1.5 % of a busy
/// core.
void lower_priority_of_this_thread();

}  // namespace echelon
