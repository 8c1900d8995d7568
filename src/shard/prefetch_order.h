#pragma once
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace echelon {

/// Predicts the order in which a pass uses units: that of the previous pass. A module that runs several times
/// appears several times. A pass that deviates overwrites the recorded order from there on. Not thread-safe.
class PrefetchOrder {
 public:
  explicit PrefetchOrder(std::vector<std::size_t> expected = {}) : expected_(std::move(expected)) {}

  /// Call at the start of a pass.
  void restart() { used_ = 0; }

  /// Call when `unit` is used.
  void use(std::size_t unit) {
    if (used_ == expected_.size() || expected_[used_] != unit) {
      expected_.resize(used_);
      expected_.push_back(unit);
    }
    ++used_;
  }

  /// The unit expected `distance` >= 1 uses after the current one; nothing beyond the recorded order.
  [[nodiscard]] std::optional<std::size_t> ahead(std::size_t distance) const {
    const std::size_t at = used_ + distance - 1;
    return at < expected_.size() ? std::optional(expected_[at]) : std::nullopt;
  }

 private:
  std::vector<std::size_t> expected_;
  std::size_t used_ = 0;
};

}  // namespace echelon
