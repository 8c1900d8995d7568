#pragma once
#include <functional>
#include <string>

#include "comm/communicator.h"
#include "run/stop_signal.h"

namespace echelon {

/// Lets all ranks stop at the same place, whichever of them got a signal or reached its deadline. Every rank
/// votes in a sum over all ranks; a sum above 0 means stop, on all of them and irrevocably. Used by one
/// thread.
class AgreedStop {
 public:
  /// Both outlive this object. `clock` says before each vote why this rank must stop at once; empty text:
  /// it need not. Null: no clock.
  AgreedStop(const StopSignal& signal, Communicator& comm, std::function<std::string()> clock = {});
  AgreedStop(const AgreedStop&) = delete;
  AgreedStop& operator=(const AgreedStop&) = delete;
  ~AgreedStop();

  /// This rank wants to stop; nothing happens while the reason is empty.
  void request(const std::string& reason);
  /// This rank's term of a sum that the ranks compute anyway.
  [[nodiscard]] double vote();
  /// Evaluates that sum.
  bool decide(double votes);

  /// A separate sum, where nothing else is reduced: started here and run beside the following work ...
  void begin_look();
  /// ... until its result is needed. Collective.
  bool end_look();
  bool look();

  [[nodiscard]] bool decided() const { return decided_; }
  /// "SIGTERM", what was requested here, or that it was another rank.
  [[nodiscard]] std::string reason() const;
  /// Has Slurm begun to end the job? It kills what is left of it after a while.
  [[nodiscard]] bool is_being_ended() const;

 private:
  const StopSignal& signal_;
  Communicator& comm_;
  std::function<std::string()> clock_;
  std::string request_;
  double votes_ = 0;
  Pending pending_;
  bool decided_ = false;
};

}  // namespace echelon
