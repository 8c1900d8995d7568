#pragma once
#include <functional>
#include <memory>
#include <optional>

namespace echelon {

/// A thread that is there beforehand, for calls without a deadline of their own: PMIx's must be possible at
/// the end, too, when the system may have no thread left and the reason for the end is to be told. Not
/// thread-safe.
class CallThread {
 public:
  /// Throws Error(kEnvironment) when no thread can be had.
  CallThread();
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;
  ~CallThread();  ///< does not wait: a call that never returns keeps the thread

  /// What `call` returns, or nothing when it does not in so many seconds, or an earlier one has not yet.
  [[nodiscard]] std::optional<int> call_within(double seconds, std::function<int()> call);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace echelon
