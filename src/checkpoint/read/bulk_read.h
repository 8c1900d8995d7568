#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "checkpoint/read/shard_indexes.h"

/// Reading much of a checkpoint at the speed of the disk.
namespace echelon::checkpoint {

/// Bytes [begin, end) of one stored piece, and where they go.
struct WantedPart {
  std::size_t rank = 0;   ///< that wrote it
  std::size_t entry = 0;  ///< of that rank's index
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::byte* to = nullptr;
};

/// Reads all parts, which may overlap in the checkpoint but not where they go: neighbors in one go, past the
/// page cache where the file system can, on `threads` threads because disks are faster with several requests.
/// Only blocks that hold wanted bytes are read; each is checked before its bytes count. Throws
/// Error(kCheckpoint) naming tensor, rank and bytes; the memory behind `to` is undefined then.
void read_parts(const ShardIndexes& indexes, std::span<const WantedPart> parts, int threads);

/// The error for a block of `entry` whose checksum differs: `at` and `size` are bytes of the piece.
[[nodiscard]] Error damaged_block(const std::filesystem::path& file, int rank, const ShardEntry& entry,
                                  std::uint64_t at, std::uint64_t size);

}  // namespace echelon::checkpoint
