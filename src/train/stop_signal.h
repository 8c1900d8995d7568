#pragma once

namespace echelon {

/// SIGTERM, SIGINT and SIGUSR2 ask for a clean stop: the current step is finished, a checkpoint written,
/// exit 85. A second SIGINT within the same process ends it at once.
class StopSignal {
 public:
  StopSignal();   ///< installs the handlers
  ~StopSignal();  ///< restores the previous ones
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// The signal's name when one has come to this process, else null.
  [[nodiscard]] const char* requested() const;
};

}  // namespace echelon
