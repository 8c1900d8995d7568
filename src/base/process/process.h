#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

/// Who runs where, on this machine, and what can be run.
namespace echelon {

struct ProcessInfo {
  pid_t parent = 0;
  std::uint64_t start = 0;  ///< clock ticks from the start of the machine to that of the process: with the
                            ///< number, it tells the process from a later one of the same number
};

/// From /proc; nothing when there is no such process.
[[nodiscard]] std::optional<ProcessInfo> process_info(pid_t pid);

/// What process numbers mean here, as one line: "boot <id> space <number>", equal texts on one machine since
/// it was started and in one PID namespace. Host names do not tell that: machines and containers share them.
/// Empty when the system does not tell.
[[nodiscard]] std::string process_space();

/// When this process began, in seconds since 1970, to a hundredth or so. Where the system does not tell: now.
[[nodiscard]] double process_began_s();

/// Path of an executable file: `name` itself when it holds a slash, else found in PATH. Empty: there is none.
[[nodiscard]] std::string find_program(const std::string& name);

/// Empty when the system does not tell.
[[nodiscard]] std::string host_name();

/// Is this rank 0 of its srun or mpirun step, as far as the environment tells? True outside of a step.
[[nodiscard]] bool first_of_step();

}  // namespace echelon
