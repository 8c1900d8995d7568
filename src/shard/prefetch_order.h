#pragma once
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace echelon {

/// The order in which a pass uses units, as the pass before did. A module that runs several times stands in
/// it several times. A pass that goes another way re-records it from there on.
class PrefetchOrder {
 public:
  explicit PrefetchOrder(std::vector<std::size_t> expected = {}) : expected_(std::move(expected)) {}

  /// A pass begins.
  void restart() { used_ = 0; }

  /// `unit` is used now.
  void use(std::size_t unit) {
    if (used_ == expected_.size() || expected_[used_] != unit) {
      expected_.resize(used_);
      expected_.push_back(unit);
    }
    ++used_;
  }

  /// What is expected `distance` uses after the current one (1: the next).
  [[nodiscard]] std::optional<std::size_t> ahead(std::size_t distance) const {
    const std::size_t at = used_ + distance - 1;
    return at < expected_.size() ? std::optional(expected_[at]) : std::nullopt;
  }

 private:
  std::vector<std::size_t> expected_;
  std::size_t used_ = 0;
};

}  // namespace echelon
