#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/steady_time.h"
#include "comm/activity.h"
#include "comm/operation.h"

namespace echelon {

/// The last 64 operations of a communicator with their times since its creation. Thread-safe.
class History {
 public:
  static constexpr std::size_t kLength = 64;

  /// `activity` receives every operation, too; may be null.
  explicit History(std::shared_ptr<Activity> activity = nullptr) : activity_(std::move(activity)) {}

  /// Null: no profile is being recorded.
  [[nodiscard]] SpanLog* spans() const { return activity_ ? activity_->spans() : nullptr; }

  void issued(const Operation& operation);
  void done(std::uint64_t sequence);

  /// Oldest first: "#41 all-gather 'layers.3' 393216 x bf16, issued 12.031 s, done 12.034 s".
  [[nodiscard]] std::vector<std::string> recent() const;

 private:
  struct Entry {
    Operation operation;
    double issued_s = 0;  ///< steady_now_s()
    std::optional<double> done_s = {};
  };

  const std::shared_ptr<Activity> activity_;
  const double began_s_ = steady_now_s();
  mutable Mutex mutex_;
  std::array<Entry, kLength> ring_ ECHELON_GUARDED_BY(mutex_);
  std::uint64_t count_ ECHELON_GUARDED_BY(mutex_) =
      0;  ///< operations ever issued; operation n lies in ring_[n % kLength]
};

}  // namespace echelon
