#pragma once
#include <optional>
#include <string>

#include "base/error.h"
#include "base/mutex.h"

namespace echelon {

/// The first failure of communication that a process learns of: it ends all of its groups. Thread-safe.
class PeerFailure {
 public:
  void set(const std::string& text) {
    const Lock lock(mutex_);
    if (!text_) text_ = text;
  }
  [[nodiscard]] std::optional<std::string> text() const {
    const Lock lock(mutex_);
    return text_;
  }
  /// Throws it as Error(kPeer), if there is one.
  void check() const {
    if (const auto failure = text()) throw Error(Code::kPeer, *failure);
  }

 private:
  mutable Mutex mutex_;
  std::optional<std::string> text_ ECHELON_GUARDED_BY(mutex_);
};

}  // namespace echelon
