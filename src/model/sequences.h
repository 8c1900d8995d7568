#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace echelon {

/// How the rows of a [tokens, ...] tensor are divided into concatenated sequences without padding, so padding
/// is never computed. Immutable; shared by everything computed from a batch.
class SequenceLayout {
 public:
  /// Throws Error(kUsage) for a length below one.
  explicit SequenceLayout(std::vector<std::int64_t> lengths);

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(lengths_.size()); }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] std::int64_t length(std::int64_t sequence) const { return lengths_[sequence]; }
  [[nodiscard]] std::int64_t begin(std::int64_t sequence) const { return begins_[sequence]; }
  [[nodiscard]] std::int64_t longest() const { return longest_; }
  /// All have the same length.
  [[nodiscard]] bool uniform() const { return tokens_ == longest_ * count(); }
  [[nodiscard]] const std::vector<std::int64_t>& lengths() const { return lengths_; }

  // Tensors that say the same on a device. Made at the first call and kept for those that follow, because a
  // copy to a device may wait for it; not to be changed.

  /// int64 [tokens]: each token's place in its sequence.
  [[nodiscard]] at::Tensor positions(at::Device device) const;
  /// int64 [tokens]: each token's sequence.
  [[nodiscard]] at::Tensor sequence_numbers(at::Device device) const;
  // As a rectangle [count, longest], behind whose sequences' ends their last token stands again:
  /// int64 [count * longest]: the token that stands at each place.
  [[nodiscard]] at::Tensor tokens_of_rectangle(at::Device device) const;
  /// int64 [tokens]: each token's place.
  [[nodiscard]] at::Tensor places_in_rectangle(at::Device device) const;
  /// bool [count, longest]: places behind their sequence's end.
  [[nodiscard]] at::Tensor padding_of_rectangle(at::Device device) const;
  /// int32 [count + 1]: cumulative lengths (cu_seqlens of varlen flash attention).
  [[nodiscard]] at::Tensor borders(at::Device device) const;
  /// [tokens, ...]: for each token the row of `table` at its position. Of the last table asked for.
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
  /// int64 [tokens]: of each sequence `first` of its number and on.
  [[nodiscard]] at::Tensor counted_from(const std::function<std::int64_t(std::int64_t)>& first) const;
  at::Tensor keep(at::Tensor Kept::*which, at::Device device, const std::function<at::Tensor()>& make) const;

  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> begins_;
  std::int64_t tokens_ = 0;
  std::int64_t longest_ = 0;
  mutable std::mutex mutex_;  ///< autograd calls from its own threads
  mutable Kept kept_;
};

using Sequences = std::shared_ptr<const SequenceLayout>;

[[nodiscard]] Sequences make_sequences(std::vector<std::int64_t> lengths);
/// `count` sequences of one length.
[[nodiscard]] Sequences make_sequences(std::int64_t count, std::int64_t length);

}  // namespace echelon
