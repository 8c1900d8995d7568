#pragma once
#include <cstdint>
#include <optional>

namespace echelon {

/// Maps samples, counted over epochs, to `size` items: shuffled anew in every epoch, or in order without a
/// seed. An epoch's order is a permutation of [0, size) that is a pure function of (seed, epoch, index).
/// Nothing is stored, so a position costs the same at sample 0 and at sample 10^12, on every rank.
/// Thread-safe.
///
/// A Feistel network over pairs (left, right) with left < a, right < b and a * b just above `size`; a result
/// that is not below `size` is sent through again (cycle walking) until it is, which keeps it a permutation.
class SampleOrder {
 public:
  /// `size` >= 1.
  SampleOrder(std::uint64_t size, std::optional<std::uint64_t> seed);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t at(std::uint64_t sample) const;

 private:
  [[nodiscard]] std::uint64_t permute(std::uint64_t epoch, std::uint64_t value) const;

  std::uint64_t size_;
  bool shuffled_;
  std::uint64_t key_;
  std::uint64_t left_size_;
  std::uint64_t right_size_;
};

}  // namespace echelon
