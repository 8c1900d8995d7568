#pragma once
#include <string>

#include "comm/communicator.h"
#include "train/stop_signal.h"

namespace echelon {

/// The stop that all ranks agree on, whichever of them a signal came to. Every rank votes in a sum over all;
/// a sum above 0 is a stop, on all of them at the same place and for good. Used by one thread.
class AgreedStop {
 public:
  /// Both outlive this object.
  AgreedStop(const StopSignal& signal, Communicator& comm);
  AgreedStop(const AgreedStop&) = delete;
  AgreedStop& operator=(const AgreedStop&) = delete;
  ~AgreedStop();

  /// This rank's part of a sum that the ranks make anyhow.
  [[nodiscard]] double vote() const;
  /// What that sum says.
  bool decide(double votes);

  /// A sum of its own, where nothing else is reduced: started here, and done beside what follows ...
  void begin_look();
  /// ... until it is asked for. Collective.
  bool end_look();
  bool look();

  [[nodiscard]] bool decided() const { return decided_; }
  /// "SIGTERM", or that the signal came to another rank.
  [[nodiscard]] std::string reason() const;

 private:
  const StopSignal& signal_;
  Communicator& comm_;
  double votes_ = 0;
  Pending pending_;
  bool decided_ = false;
};

}  // namespace echelon
