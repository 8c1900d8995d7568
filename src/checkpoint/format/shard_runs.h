#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/format/shard_index.h"

namespace echelon::checkpoint {

/// Consecutive bytes of the file after the index that are either all outside tensors, or within one checksum
/// block of one tensor.
struct Run {
  static constexpr std::size_t kNoEntry = ~std::size_t{0};
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
  std::size_t entry = kNoEntry;  ///< tensor bytes: of which index entry; kNoEntry: HDF5 metadata or zeros
  std::uint64_t at = 0;          ///< tensor bytes: where in the piece
  std::uint64_t block = 0;       ///< tensor bytes: number of its checksum
};
/// The runs that make up file bytes [begin, end), end <= file_bytes.
[[nodiscard]] std::vector<Run> runs_between(const ShardIndex& index, std::uint64_t begin, std::uint64_t end);

/// Computes checksums of a shard's tensor bytes in file order, run after run: of each block, and of each
/// whole piece.
class PieceSums {
 public:
  /// A complete block.
  struct Block {
    std::uint64_t at = 0;  ///< where in the piece
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
    bool ends_piece = false;
  };

  /// `run`: tensor bytes of `index`, which are `bytes`. Nothing while the block is incomplete.
  std::optional<Block> add(const ShardIndex& index, const Run& run, std::span<const std::byte> bytes);

  /// Both sums are those of the piece up to its last complete block.
  [[nodiscard]] std::uint32_t crc() const { return crc_; }
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::uint32_t block_crc_ = 0;
  std::uint32_t crc_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace echelon::checkpoint
