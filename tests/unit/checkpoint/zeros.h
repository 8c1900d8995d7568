#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/checksum/crc32c.h"
#include "base/checksum/crc64.h"
#include "base/files/disk.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "checkpoint/format/coverage.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"

/// Checkpoints of any size that take no room: all tensors are zero, and the shards' files are holes behind
/// their indexes. Everything but HDF5's own part is as a save writes it.
namespace echelon::checkpoint::test {

/// What `bytes` zero bytes sum up to: twice as many again and again.
template <class Sum, class Combine>
Sum of_zeros(std::uint64_t bytes, Sum one, const Combine& combine) {
  Sum sum = 0;
  for (std::uint64_t power = 1; bytes != 0; power *= 2, bytes /= 2) {
    if (bytes % 2 != 0) sum = combine(sum, one, power);
    one = combine(one, one, power);
  }
  return sum;
}
inline std::uint32_t crc_of_zeros(std::uint64_t bytes) {
  const std::byte zero{};
  return of_zeros(bytes, crc32c({&zero, 1}), crc32c_combine);
}
inline std::uint64_t fingerprint_of_zeros(std::uint64_t bytes) {
  const std::byte zero{};
  return of_zeros(bytes, crc64({&zero, 1}), crc64_combine);
}

/// What rank `rank` holds of `tensors`, each cut evenly.
inline ShardIndex zero_index(const std::vector<TensorInfo>& tensors, int rank, int ranks,
                             const std::string& save_id) {
  ShardIndex index{.rank = rank, .ranks = ranks, .save_id = save_id};
  std::uint64_t blocks = 0;
  const std::uint32_t block_crc = crc_of_zeros(index.block_bytes);
  for (const TensorInfo& tensor : tensors) {
    const std::uint64_t count = element_count(tensor);
    const auto border = [&](int r) {
      return count / static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(r) +
             (r == ranks ? count % static_cast<std::uint64_t>(ranks) : 0);
    };
    ShardEntry entry{.tensor = tensor, .begin = border(rank), .end = border(rank + 1), .first_block = blocks};
    if (entry.begin == entry.end) continue;
    entry.bytes = (entry.end - entry.begin) * size_of(tensor.dtype);
    entry.crc = crc_of_zeros(entry.bytes);
    entry.fingerprint = fingerprint_of_zeros(entry.bytes);
    blocks += block_count(entry.bytes, index.block_bytes);
    index.block_crcs.resize(blocks, block_crc);
    if (entry.bytes % index.block_bytes != 0)
      index.block_crcs.back() = crc_of_zeros(entry.bytes % index.block_bytes);
    index.entries.push_back(std::move(entry));
  }
  index.index_bytes = index_size(index.entries, index.block_bytes);
  std::uint64_t at = index.index_bytes;
  for (ShardEntry& entry : index.entries) {
    entry.file_offset = at;
    at += (entry.bytes + 4095) / 4096 * 4096;
  }
  index.file_bytes = at;
  return index;
}

/// Returns the step folder.
inline fs::Path save_zeros(const fs::Path& checkpoints, std::vector<TensorInfo> tensors, int ranks) {
  const std::string id = "0a1b2c3d";
  const fs::Path folder = checkpoints / step_folder_name(1, id);
  fs::make_directories(folder, Code::kCheckpoint);
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  Manifest manifest{.step = 1, .save_id = id, .tensors = tensors, .trainer_state = "{}"};
  for (int rank = 0; rank < ranks; ++rank) {
    const ShardIndex index = zero_index(tensors, rank, ranks, id);
    const std::vector<std::byte> block = encode_index(index);
    const std::string name = shard_file_name(rank, ranks);
    const fs::Fd fd = fs::open(folder / name, O_WRONLY | O_CREAT | O_EXCL, Code::kCheckpoint);
    fs::write_at(fd, 0, block, Code::kCheckpoint, folder / name);
    if (fs::disk().ftruncate(fd.get(), static_cast<off_t>(index.file_bytes)) != 0)
      throw Error(Code::kCheckpoint, "no files with holes here");
    manifest.shards.push_back({.file = name, .bytes = index.file_bytes, .index_crc = index_crc(block)});
  }
  for (const TensorInfo& tensor : tensors) {
    const std::uint64_t bytes = element_count(tensor) * size_of(tensor.dtype);
    manifest.digests.push_back({crc_of_zeros(bytes), fingerprint_of_zeros(bytes)});
  }
  const std::string text = manifest_text(manifest);
  fs::publish_file(folder / kManifestFile, text, Code::kCheckpoint);
  fs::publish_file(folder / kCommitFile,
                   commit_text({.step = 1,
                                .save_id = id,
                                .manifest_bytes = text.size(),
                                .manifest_crc = crc32c(std::as_bytes(std::span(text)))}),
                   Code::kCheckpoint);
  return folder;
}

}  // namespace echelon::checkpoint::test
