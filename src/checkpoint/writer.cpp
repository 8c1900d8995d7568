#include "checkpoint/writer.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/str.h"
#include "checkpoint/names.h"
#include "checkpoint/new_file.h"
#include "checkpoint/shard_plan.h"

namespace echelon::checkpoint {
namespace {

// Written in one go; small enough to be still in the cache when the system copies it.
constexpr std::size_t kWindowBytes = 2 * kBlockBytes;

/// Copies `from` into the staging memory, one checksum a block. What is checked later is what was in memory
/// now: nothing that happens to the bytes afterwards goes unnoticed.
std::uint32_t stage(std::span<const std::byte> from, std::span<std::byte> to,
                    std::span<std::uint32_t> block_crcs) {
  std::uint32_t whole = 0;
  for (std::size_t block = 0; block < block_crcs.size(); ++block) {
    const std::size_t begin = block * kBlockBytes;
    const std::size_t size = std::min<std::size_t>(kBlockBytes, from.size() - begin);
    block_crcs[block] = crc32c_copy(to.subspan(begin, size), from.subspan(begin, size));
    whole = crc32c_combine(whole, block_crcs[block], size);
  }
  return whole;
}

/// One tensor piece: staged and written window by window.
void write_piece(NewFile& file, ShardIndex& index, ShardEntry& entry, std::span<const std::byte> bytes,
                 std::span<std::byte> window) {
  std::span<std::uint32_t> crcs =
      std::span(index.block_crcs).subspan(entry.first_block, block_count(bytes.size(), kBlockBytes));
  for (std::size_t at = 0; at < bytes.size(); at += window.size()) {
    const auto part = bytes.subspan(at, std::min(window.size(), bytes.size() - at));
    const auto part_crcs = crcs.subspan(at / kBlockBytes, block_count(part.size(), kBlockBytes));
    entry.crc = crc32c_combine(entry.crc, stage(part, window, part_crcs), part.size());
    file.write(entry.file_offset + at, window.first(part.size()));
  }
}

ShardSummary summarise(const ShardIndex& index, std::string file, std::uint32_t crc) {
  ShardSummary summary{
      .rank = index.rank, .file = std::move(file), .file_bytes = index.file_bytes, .index_crc = crc};
  for (const ShardEntry& entry : index.entries)
    summary.pieces.push_back({entry.tensor.name, entry.begin, entry.end});
  return summary;
}

}  // namespace

ShardSummary write_shard(const std::filesystem::path& folder, int rank, int ranks, const std::string& save_id,
                         std::span<const Slice> slices) {
  return in_context(str("cannot save rank ", rank, "'s shard"), [&] {
    ShardPlan plan = plan_shard(rank, ranks, save_id, slices);
    ShardIndex& index = plan.index;
    std::string name = shard_file_name(rank, ranks);
    NewFile file(folder / name, index.file_bytes);
    file.write(index.index_bytes, plan.metadata);
    std::vector<std::byte> window(kWindowBytes);
    for (std::size_t i = 0; i < index.entries.size(); ++i) {
      write_piece(file, index, index.entries[i], slices[plan.sources[i]].bytes, window);
    }
    // Last, so that a shard cut off in the middle has no index and cannot pass for a whole one.
    const std::vector<std::byte> block = encode_index(index);
    file.write(0, block);
    file.finish();
    fs::fsync_directory(folder, Code::kCheckpoint);
    return summarise(index, std::move(name), index_crc(block));
  });
}

}  // namespace echelon::checkpoint
