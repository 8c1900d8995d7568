#pragma once

namespace echelon {

/// SIGTERM, SIGINT, SIGUSR2, SIGHUP and SIGQUIT ask for a clean stop: what is going on is brought to a good
/// end, a checkpoint written once there is something to save, exit 85. The second one of a keyboard (SIGINT,
/// SIGQUIT) within the same process ends it at once, with 128 + its number. A SIGHUP that is ignored stays so
/// (nohup).
class StopSignal {
 public:
  /// Installs the handlers. Those of the signals that were blocked until now arrive.
  StopSignal();
  ~StopSignal();  ///< restores the previous ones
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// The signal's name when one has come to this process, else null.
  [[nodiscard]] const char* requested() const;
  /// Until the process is gone no further one has any effect: schedulers repeat themselves, and the exit code
  /// that is on its way must not become that of a killed process.
  void ignore_further();

 private:
  bool restores_ = true;
};

}  // namespace echelon
