#pragma once
#include <functional>
#include <string>

#include "comm/communicator.h"
#include "run/stop_signal.h"

namespace echelon {

/// The stop that all ranks agree on, whichever of them a signal came to, or the clock told. Every rank votes
/// in a sum over all; a sum above 0 is a stop, on all of them at the same place and for good. Used by one
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
  /// This rank's part of a sum that the ranks make anyhow.
  [[nodiscard]] double vote();
  /// What that sum says.
  bool decide(double votes);

  /// A sum of its own, where nothing else is reduced: started here, and done beside what follows ...
  void begin_look();
  /// ... until it is asked for. Collective.
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
