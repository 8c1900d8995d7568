#include "data/sample_order.h"

#include <cmath>

#include "base/philox.h"

namespace echelon {
namespace {

// Even, so that both halves are changed equally often. With Philox as the round function, eight rounds
// leave no detectable pattern at any size (Luby and Rackoff, 1988: four rounds of a strong function already
// give a pseudorandom permutation).
constexpr std::uint64_t kRounds = 8;

std::uint64_t round_word(std::uint64_t key, std::uint64_t epoch, std::uint64_t round, std::uint64_t half) {
  const auto words = philox4x32(key, half, epoch * kRounds + round);
  return (std::uint64_t{words[1]} << 32) | words[0];
}

/// Smallest r with r * r >= value.
std::uint64_t ceil_sqrt(std::uint64_t value) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root > 0 && (root - 1) * (root - 1) >= value) --root;
  while (root * root < value) ++root;
  return root;
}

}  // namespace

SampleOrder::SampleOrder(std::uint64_t size, std::optional<std::uint64_t> seed)
    : size_(size),
      shuffled_(seed.has_value()),
      key_(stream_key(seed.value_or(0), "data order")),
      left_size_(ceil_sqrt(size)),
      right_size_((size + left_size_ - 1) / left_size_) {}

std::uint64_t SampleOrder::permute(std::uint64_t epoch, std::uint64_t value) const {
  // Modular addition instead of the usual XOR, because the halves' sizes are not powers of two.
  std::uint64_t left = value / right_size_;
  std::uint64_t right = value % right_size_;
  for (std::uint64_t round = 0; round < kRounds; round += 2) {
    left = (left + round_word(key_, epoch, round, right) % left_size_) % left_size_;
    right = (right + round_word(key_, epoch, round + 1, left) % right_size_) % right_size_;
  }
  return left * right_size_ + right;
}

std::uint64_t SampleOrder::at(std::uint64_t sample) const {
  const std::uint64_t epoch = sample / size_;
  std::uint64_t value = sample % size_;
  if (!shuffled_) return value;
  // Cycle walking. left_size * right_size exceeds size by less than left_size, so this rarely repeats.
  do {
    value = permute(epoch, value);
  } while (value >= size_);
  return value;
}

}  // namespace echelon
