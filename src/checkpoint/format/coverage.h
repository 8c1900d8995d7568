#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/shard_index.h"

namespace echelon::checkpoint {

/// Where elements [begin, end) of a tensor are stored, and the checksums of their bytes.
struct StoredPiece {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t fingerprint = 0;
  std::uint32_t crc = 0;
  std::uint32_t rank = 0;
  std::uint32_t entry = 0;  ///< of that rank's index
};

/// The pieces of all tensors of a checkpoint, collected shard by shard: a few words per piece, whatever its
/// size.
class Coverage {
 public:
  /// `tensors` must outlive it.
  explicit Coverage(const std::vector<TensorInfo>& tensors);

  /// The entries of rank `rank`'s index. Throws Error(kCheckpoint) for a tensor that is not there, or is of
  /// another type or shape.
  void add(int rank, std::span<const ShardEntry> entries);
  /// After the last add(): sorts, and throws Error(kCheckpoint) unless every element of every tensor is in
  /// exactly one shard.
  void prove();
  /// After prove(): the checksums of each whole tensor.
  [[nodiscard]] std::vector<TensorDigest> digests() const;

  /// After prove(), as the last call: the pieces of each tensor, in the order of `tensors`, by increasing
  /// begin.
  [[nodiscard]] std::vector<std::vector<StoredPiece>> take() { return std::move(pieces_); }

 private:
  const std::vector<TensorInfo>* tensors_;
  std::unordered_map<std::string_view, std::size_t> numbers_;  ///< by name
  std::vector<std::vector<StoredPiece>> pieces_;
};

}  // namespace echelon::checkpoint
