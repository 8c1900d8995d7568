#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "base/not_copied.h"

namespace echelon {

/// A thread, created in advance, for calls that have no deadline. PMIx's last calls must work even when the
/// system can start no more threads, because they report why the job ends. Not thread-safe.
class CallThread : NotCopied {
 public:
  /// Throws Error(kEnvironment) when no thread can be had.
  CallThread();
  ~CallThread();  ///< does not wait: a call that never returns keeps the thread

  /// The result of `call`, or nothing if it does not return within `seconds`, or an earlier call still hangs.
  [[nodiscard]] std::optional<int> call_within(double seconds, std::function<int()> call);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace echelon
