#include "checkpoint/verify.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/str.h"
#include "checkpoint/contents.h"
#include "checkpoint/files.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

/// Walks one shard from its first byte behind the index to its last.
class ShardCheck {
 public:
  ShardCheck(const Path& path, const ShardIndex& index, VerifyReport& report,
             const std::function<void(std::uint64_t)>& done)
      : path_(path), index_(index), report_(report), done_(done), file_(open_input(path)) {}

  void run() {
    std::uint64_t at = index_.index_bytes;
    std::uint32_t between = 0;
    for (const ShardEntry& entry : index_.entries) {
      between = gap(at, entry.file_offset, between);
      piece(entry);
      at = entry.file_offset + entry.bytes;
    }
    between = gap(at, index_.file_bytes, between);
    if (between != index_.layout_crc) {
      report_.damages.push_back(
          {.file = path_.filename().string(),
           .rank = index_.rank,
           .byte_begin = index_.index_bytes,
           .byte_end = index_.file_bytes,
           .problem =
               str("shard '", path_.string(), "' (rank ", index_.rank, "): its HDF5 metadata (between ",
                   "bytes ", index_.index_bytes, " and ", index_.file_bytes,
                   ", outside all tensors) is damaged; tensors can still be read")});
    }
  }

 private:
  std::span<const std::byte> load(std::uint64_t at, std::uint64_t size) {
    buffer_.resize(size);
    fs::read_at(file_.fd, at, buffer_, Code::kCheckpoint, path_);
    report_.bytes_checked += size;
    done_(size);
    return buffer_;
  }

  std::uint32_t gap(std::uint64_t begin, std::uint64_t end, std::uint32_t crc) {
    for (; begin < end; begin += kBlockBytes)
      crc = crc32c(load(begin, std::min<std::uint64_t>(kBlockBytes, end - begin)), crc);
    return crc;
  }

  void piece(const ShardEntry& entry) {
    std::uint32_t whole = 0;
    bool blocks_good = true;
    for (std::uint64_t at = 0; at < entry.bytes; at += index_.block_bytes) {
      const std::uint64_t size = std::min<std::uint64_t>(index_.block_bytes, entry.bytes - at);
      const std::uint32_t crc = crc32c(load(entry.file_offset + at, size));
      whole = crc32c_combine(whole, crc, size);
      if (crc == index_.block_crcs[entry.first_block + at / index_.block_bytes]) continue;
      blocks_good = false;
      damaged(entry, at, size);
    }
    if (blocks_good && whole != entry.crc) damaged(entry, 0, entry.bytes);
  }

  void damaged(const ShardEntry& entry, std::uint64_t at, std::uint64_t size) {
    const std::uint64_t element = size_of(entry.tensor.dtype);
    Damage damage{.file = path_.filename().string(),
                  .rank = index_.rank,
                  .tensor = entry.tensor.name,
                  .element_begin = entry.begin + at / element,
                  .element_end = entry.begin + (at + size) / element,
                  .byte_begin = entry.file_offset + at,
                  .byte_end = entry.file_offset + at + size};
    damage.problem =
        str("shard '", path_.string(), "' (rank ", index_.rank, "): tensor '", entry.tensor.name,
            "', elements ", damage.element_begin, " to ", damage.element_end - 1, ", file bytes ",
            damage.byte_begin, " to ", damage.byte_end - 1, ": checksum differs");
    report_.damages.push_back(std::move(damage));
  }

  Path path_;
  const ShardIndex& index_;
  VerifyReport& report_;
  const std::function<void(std::uint64_t)>& done_;
  InputFile file_;
  std::vector<std::byte> buffer_;
};

/// Runs `body`; what it throws becomes a damage of `file`.
template <class Body>
void collect(VerifyReport& report, const std::string& file, int rank, Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    if (e.code() != Code::kCheckpoint) throw;
    report.damages.push_back({.file = file, .rank = rank, .problem = e.what()});
  }
}

/// Every shard's index; those that cannot be used are reported and left out.
std::vector<ShardIndex> check_indexes(const Path& folder, const Manifest& manifest, VerifyReport& report) {
  std::vector<ShardIndex> indexes;
  const int ranks = static_cast<int>(manifest.shards.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const ManifestShard& shard = manifest.shards[static_cast<std::size_t>(rank)];
    collect(report, shard.file, rank, [&] {
      indexes.push_back(load_shard_index(folder, shard, rank, ranks, manifest.save_id));
      report.bytes_checked += indexes.back().index_bytes;
    });
  }
  // With a shard gone, holes follow from that; they would only bury the cause.
  if (report.damages.empty()) {
    collect(report, std::string(), -1, [&] { check_shards_cover(manifest.tensors, indexes); });
  }
  return indexes;
}

}  // namespace

VerifyReport verify(const Path& folder, VerifyDepth depth, const VerifyProgress& progress) {
  VerifyReport report;
  Contents contents{.folder = folder};
  collect(report, "COMMIT", -1, [&] { contents.manifest = load_manifest(folder); });
  if (!report.damages.empty()) return report;
  report.step = contents.manifest.step;
  report.save_id = contents.manifest.save_id;
  for (const auto& attachment : contents.manifest.attachments) {
    const std::string& name = attachment.first;
    collect(report, name, -1, [&] { report.bytes_checked += load_attachment(contents, name).size(); });
  }
  const std::vector<ShardIndex> indexes = check_indexes(folder, contents.manifest, report);
  if (depth == VerifyDepth::kQuick) return report;
  std::uint64_t total = 0;
  for (const ShardIndex& index : indexes) total += index.file_bytes - index.index_bytes;
  std::uint64_t sum = 0;
  const std::function<void(std::uint64_t)> done = [&](std::uint64_t bytes) {
    sum += bytes;
    if (progress) progress(sum, total);
  };
  for (const ShardIndex& index : indexes) {
    const std::string& file = contents.manifest.shards[static_cast<std::size_t>(index.rank)].file;
    collect(report, file, index.rank, [&] { ShardCheck(folder / file, index, report, done).run(); });
  }
  return report;
}

}  // namespace echelon::checkpoint
