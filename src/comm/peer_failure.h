#pragma once
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"

namespace echelon {

/// The first failure of communication that a process learns of: it ends all of its groups. Thread-safe.
class PeerFailure {
 public:
  void set(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (!text_) text_ = text;
  }
  [[nodiscard]] std::optional<std::string> text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  /// Throws it as Error(kPeer), if there is one.
  void check() const {
    if (const auto failure = text()) throw Error(Code::kPeer, *failure);
  }

 private:
  mutable std::mutex mutex_;
  std::optional<std::string> text_;
};

}  // namespace echelon
