#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

/// Who runs where, on this machine.
namespace echelon {

struct ProcessInfo {
  pid_t parent = 0;
  std::uint64_t start = 0;  ///< clock ticks from the start of the machine to that of the process: with the
                            ///< number, it tells the process from a later one of the same number
};

/// From /proc; nothing when there is no such process.
[[nodiscard]] std::optional<ProcessInfo> process_info(pid_t pid);

/// Empty when the system does not tell.
[[nodiscard]] std::string host_name();

}  // namespace echelon
