#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/checksum/crc32c.h"
#include "base/checksum/crc64.h"
#include "checkpoint/format/shard_runs.h"

namespace echelon::checkpoint {

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
  std::optional<Block> add(const ShardIndex& index, const Run& run, std::span<const std::byte> bytes) {
    if (run.at == 0) *this = {};
    const std::uint64_t in_block = run.at % index.block_bytes;
    block_crc_ = crc32c(bytes, in_block == 0 ? 0 : block_crc_);
    fingerprint_ = crc64(bytes, fingerprint_);
    const Block block{.at = run.at - in_block,
                      .size = in_block + run.bytes,
                      .crc = block_crc_,
                      .ends_piece = run.at + run.bytes == index.entries[run.entry].bytes};
    if (!block.ends_piece && block.size != index.block_bytes) return std::nullopt;
    crc_ = crc32c_combine(crc_, block.crc, block.size);
    return block;
  }

  /// Of the piece, up to the last complete block.
  [[nodiscard]] std::uint32_t crc() const { return crc_; }
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::uint32_t block_crc_ = 0;
  std::uint32_t crc_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace echelon::checkpoint
