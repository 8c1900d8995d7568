#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/tensor.h"

/// The binary index in a shard's user block: all that a reader needs, so that it need not parse HDF5.
/// Byte by byte in docs/checkpoint_format.md.
namespace echelon::checkpoint {

inline constexpr int kFormatMajor = 1;
inline constexpr int kFormatMinor = 1;  ///< what this version writes; it reads every minor version
/// What this version writes. Small, because a reader that wants a part of a tensor must read whole blocks.
inline constexpr std::uint32_t kBlockBytes = 64U << 10;
inline constexpr std::uint64_t kMinIndexBytes = 4096;
inline constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{64} << 20;
inline constexpr std::size_t kIndexHeaderBytes = 96;

/// One stored piece of one tensor.
struct ShardEntry {
  TensorInfo tensor;
  std::uint64_t begin = 0;  ///< elements [begin, end) of the flattened tensor
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first_block = 0;  ///< into ShardIndex::block_crcs
  std::uint32_t crc = 0;          ///< of the whole piece
  std::uint64_t fingerprint = 0;  ///< CRC-64/NVME of the whole piece; 0 in format 1.0, which has none
};

struct ShardIndex {
  int minor = kFormatMinor;
  int rank = 0;
  int ranks = 0;
  std::string save_id;
  std::uint64_t index_bytes = 0;  ///< size of the user block
  std::uint64_t file_bytes = 0;
  std::uint32_t block_bytes = kBlockBytes;
  std::uint32_t layout_crc = 0;     ///< of all bytes after the user block that are in no tensor
  std::vector<ShardEntry> entries;  ///< by increasing file_offset
  std::vector<std::uint32_t> block_crcs;
};

/// What the first kIndexHeaderBytes say about how to read on.
struct IndexHead {
  std::uint64_t index_bytes = 0;
  std::uint64_t file_bytes = 0;
};

/// Blocks that `bytes` bytes take.
[[nodiscard]] std::uint64_t block_count(std::uint64_t bytes, std::uint32_t block_bytes);

/// Size of the user block that an index with these entries needs: a power of two.
[[nodiscard]] std::uint64_t index_size(std::span<const ShardEntry> entries, std::uint32_t block_bytes);

/// The whole user block, index.index_bytes long, with its own checksum set.
[[nodiscard]] std::vector<std::byte> encode_index(const ShardIndex& index);

/// CRC-32C of the checksums of all blocks: stands for the tensor bytes of a shard, and is known before the
/// index is, when the state has been copied.
[[nodiscard]] std::uint32_t blocks_crc(const ShardIndex& index);

/// CRC32C of a user block, its own checksum field taken as zero: what the field and the manifest hold.
[[nodiscard]] std::uint32_t index_crc(std::span<const std::byte> block);
/// Sets the checksum field.
void seal_index(std::span<std::byte> block);

/// Magic, version and sizes; `what` names the file in errors. Throws Error(kCheckpoint), for a newer format
/// with the version it needs.
[[nodiscard]] IndexHead decode_index_head(std::span<const std::byte> header, const std::string& what);

/// Everything, hostile input included: sizes are checked before anything is allocated or read.
[[nodiscard]] ShardIndex decode_index(std::span<const std::byte> block, const std::string& what);

/// The parts of a user block that list what the shard holds: [0, entries_end) and [names, names_end). The
/// block checksums between them are nearly all of a large index.
struct IndexTable {
  std::uint64_t entries_end = 0;
  std::uint64_t names = 0;
  std::uint64_t names_end = 0;
};
/// From the first kIndexHeaderBytes.
[[nodiscard]] IndexTable find_table(std::span<const std::byte> header, const std::string& what);

/// Decodes those two parts, concatenated: everything but `block_crcs`. Hostile input is refused as by
/// decode_index(), but no checksum has been verified.
[[nodiscard]] ShardIndex decode_table(std::span<const std::byte> parts, const std::string& what);

}  // namespace echelon::checkpoint
