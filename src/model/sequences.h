#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace echelon {

/// The division of a [tokens, ...] tensor into concatenated sequences without padding. Immutable and
/// thread-safe; shared by everything computed from a batch.
class SequenceLayout {
 public:
  /// Throws Error(kUsage) for a length below 1.
  explicit SequenceLayout(std::vector<std::int64_t> lengths);

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(lengths_.size()); }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] std::int64_t length(std::int64_t sequence) const { return lengths_[sequence]; }
  [[nodiscard]] std::int64_t begin(std::int64_t sequence) const { return begins_[sequence]; }
  [[nodiscard]] std::int64_t longest() const { return longest_; }
  /// True if all sequences have the same length.
  [[nodiscard]] bool uniform() const { return tokens_ == longest_ * count(); }
  [[nodiscard]] const std::vector<std::int64_t>& lengths() const { return lengths_; }

  // The layout as tensors on a device. Created at the first call and cached, because a copy to a device may
  // block. Callers must not modify them.

  /// int64 [tokens]: each token's index in its sequence.
  [[nodiscard]] at::Tensor positions(at::Device device) const;
  /// int64 [tokens]: the number of each token's sequence.
  [[nodiscard]] at::Tensor sequence_numbers(at::Device device) const;
  // As a rectangle [count, longest], in which each shorter sequence is padded with its last token:
  /// int64 [count * longest]: the token at each place.
  [[nodiscard]] at::Tensor tokens_of_rectangle(at::Device device) const;
  /// int64 [tokens]: each token's place in the rectangle.
  [[nodiscard]] at::Tensor places_in_rectangle(at::Device device) const;
  /// bool [count, longest]: true for padding.
  [[nodiscard]] at::Tensor padding_of_rectangle(at::Device device) const;
  /// int32 [count + 1]: cumulative lengths (cu_seqlens of varlen flash attention).
  [[nodiscard]] at::Tensor borders(at::Device device) const;
  /// [tokens, ...]: the row of `table` at each token's position. Cached only for the latest `table`.
  [[nodiscard]] at::Tensor rows_at_positions(const at::Tensor& table) const;

 private:
  struct Kept {
    at::Tensor positions;
    at::Tensor sequence_numbers;
    at::Tensor tokens_of_rectangle;
    at::Tensor places_in_rectangle;
    at::Tensor padding_of_rectangle;
    at::Tensor borders;
    at::Tensor table;
    at::Tensor rows;
  };
  /// int64 [tokens]: each sequence s counts up from first(s).
  [[nodiscard]] at::Tensor counted_from(const std::function<std::int64_t(std::int64_t)>& first) const;
  at::Tensor keep(at::Tensor Kept::*which, at::Device device, const std::function<at::Tensor()>& make) const;

  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> begins_;
  std::int64_t tokens_ = 0;
  std::int64_t longest_ = 0;
  mutable Mutex mutex_;  ///< autograd calls from other threads
  mutable Kept kept_ ECHELON_GUARDED_BY(mutex_);
};

using Sequences = std::shared_ptr<const SequenceLayout>;

[[nodiscard]] Sequences make_sequences(std::vector<std::int64_t> lengths);
/// `count` sequences of one length.
[[nodiscard]] Sequences make_sequences(std::int64_t count, std::int64_t length);

}  // namespace echelon
