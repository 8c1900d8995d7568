#include "checkpoint/format/shard_runs.h"

#include <algorithm>

#include "base/checksum/crc32c.h"
#include "base/checksum/crc64.h"

namespace echelon::checkpoint {

std::vector<Run> runs_between(const ShardIndex& index, std::uint64_t begin, std::uint64_t end) {
  std::vector<Run> runs;
  // Entries are sorted by file offset.
  auto entry = std::ranges::partition_point(
      index.entries, [&](const ShardEntry& e) { return e.file_offset + e.bytes <= begin; });
  for (std::uint64_t at = begin; at < end;) {
    Run run{.file_offset = at};
    if (entry == index.entries.end() || at < entry->file_offset) {
      run.bytes = std::min(end, entry == index.entries.end() ? end : entry->file_offset) - at;
    } else {
      run.entry = static_cast<std::size_t>(entry - index.entries.begin());
      run.at = at - entry->file_offset;
      run.block = entry->first_block + run.at / index.block_bytes;
      const std::uint64_t block_end = (run.at / index.block_bytes + 1) * index.block_bytes;
      run.bytes = std::min({end - at, entry->bytes - run.at, block_end - run.at});
      if (run.at + run.bytes == entry->bytes) ++entry;
    }
    at += run.bytes;
    runs.push_back(run);
  }
  return runs;
}

std::optional<PieceSums::Block> PieceSums::add(const ShardIndex& index, const Run& run,
                                               std::span<const std::byte> bytes) {
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

}  // namespace echelon::checkpoint
