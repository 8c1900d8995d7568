#pragma once
#include <array>
#include <csignal>

#include "base/not_copied.h"

namespace echelon {

/// SIGTERM, SIGINT, SIGUSR2, SIGHUP and SIGQUIT ask for a clean stop: what is going on is brought to a good
/// end, a checkpoint written once there is something to save, exit 85. The second one of a keyboard (SIGINT,
/// SIGQUIT) within the same process ends it at once, with 128 + its number. A SIGHUP that is ignored stays so
/// (nohup).
class StopSignal : NotCopied {
 public:
  static constexpr std::array<int, 5> kSignals{SIGTERM, SIGINT, SIGUSR2, SIGHUP, SIGQUIT};

  /// Installs the handlers and unblocks these signals, so that pending ones arrive.
  StopSignal();
  ~StopSignal();  ///< restores the previous ones
  /// Installs the handlers anew. Call it after a library has started that may have its own: UCX, below Open
  /// MPI 5, takes SIGHUP for its debugger.
  void take_back();
  /// The signal's name when one has come to this process, else null.
  [[nodiscard]] const char* requested() const;
  /// Ignores all further signals until the process has ended: schedulers repeat themselves, and a repeated
  /// signal must not replace the exit code by that of a killed process.
  void ignore_further();

 private:
  bool restores_ = true;
};

/// SIGUSR1 asks a running job to log its state (memory, time per unit); training goes on. Before and after,
/// `echelon train` ignores it.
class ReportRequest : NotCopied {
 public:
  ReportRequest();   ///< installs the handler
  ~ReportRequest();  ///< restores the previous one
  /// True once for each request that came.
  [[nodiscard]] bool take();

 private:
  struct sigaction previous_ {};
};

}  // namespace echelon
