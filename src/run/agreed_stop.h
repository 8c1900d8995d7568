#pragma once
#include <functional>
#include <string>

#include "base/not_copied.h"
#include "comm/communicator.h"
#include "run/signals.h"

namespace echelon {

/// Lets all ranks stop at the same place, whichever of them got a signal or reached its deadline. Every rank
/// votes in a sum over all ranks; a sum above 0 means stop, on all of them and irrevocably. Used by one
/// thread.
class AgreedStop : NotCopied {
 public:
  /// `signal` and `comm` must outlive this object. Before each vote, `clock` returns why this rank must stop
  /// at once, or an empty text if it need not. Null: no clock.
  AgreedStop(const StopSignal& signal, Communicator& comm, std::function<std::string()> clock = {});
  ~AgreedStop();

  /// Asks for a stop from this rank. Does nothing if `reason` is empty.
  void request(const std::string& reason);
  /// Returns this rank's term of a sum that the ranks compute anyway.
  [[nodiscard]] double vote();
  /// Evaluates that sum.
  bool decide(double votes);

  /// A separate sum, where nothing else is reduced: started here and run beside the following work ...
  void begin_look();
  /// ... until its result is needed. Collective.
  bool end_look();
  bool look();

  [[nodiscard]] bool decided() const { return decided_; }
  /// Returns why the ranks stop: "SIGTERM", the reason requested here, or that another rank asked.
  [[nodiscard]] std::string reason() const;
  /// Returns whether Slurm has begun to end the job. After a while Slurm kills all processes that are left.
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
