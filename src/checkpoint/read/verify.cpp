#include "checkpoint/read/verify.h"

#include <algorithm>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/shard_runs.h"
#include "checkpoint/format/trainer_state.h"
#include "checkpoint/read/bulk_read.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

/// Reads one shard from the first byte after the index to its last.
class ShardVerification {
 public:
  ShardVerification(const Path& path, const ShardIndex& index, VerifyReport& report,
                    const std::function<void(std::uint64_t)>& done)
      : path_(path), index_(index), report_(report), done_(done), file_(open_input(path)) {}

  void run() {
    std::vector<std::byte> window;
    for (std::uint64_t at = index_.index_bytes; at < index_.file_bytes; at += window.size()) {
      window.resize(std::min(kWindowBytes, index_.file_bytes - at));
      fs::read_at(file_.fd, at, window, Code::kCheckpoint, path_);
      for (const Run& run : runs_between(index_, at, at + window.size()))
        take(run, std::span(window).subspan(run.file_offset - at, run.bytes));
      report_.bytes_checked += window.size();
      done_(window.size());
    }
    if (between_ == index_.layout_crc) return;
    report_.damages.push_back(
        {.file = path_.filename().string(),
         .rank = index_.rank,
         .byte_begin = index_.index_bytes,
         .byte_end = index_.file_bytes,
         .problem = str("shard '", path_.string(), "' (rank ", index_.rank, "): its HDF5 metadata (between ",
                        "bytes ", index_.index_bytes, " and ", index_.file_bytes,
                        ", outside all tensors) is damaged; tensors can still be read")});
  }

 private:
  static constexpr std::uint64_t kWindowBytes = std::uint64_t{8} << 20;

  void take(const Run& run, std::span<const std::byte> bytes) {
    if (run.entry == Run::kNoEntry) {
      between_ = crc32c(bytes, between_);
      return;
    }
    const ShardEntry& entry = index_.entries[run.entry];
    if (run.at == 0) blocks_good_ = true;
    const auto block = sums_.add(index_, run, bytes);
    if (!block) return;
    if (block->crc != index_.block_crcs[run.block]) {
      blocks_good_ = false;
      damaged(entry, block->at, block->size);
    }
    const bool whole =
        sums_.crc() == entry.crc && (index_.minor == 0 || sums_.fingerprint() == entry.fingerprint);
    // Every block is right and the piece is not: then the piece's own sums in the index are wrong.
    if (block->ends_piece && blocks_good_ && !whole) damaged(entry, 0, entry.bytes);
  }

  void damaged(const ShardEntry& entry, std::uint64_t at, std::uint64_t size) {
    const std::uint64_t element = size_of(entry.tensor.dtype);
    report_.damages.push_back({.file = path_.filename().string(),
                               .rank = index_.rank,
                               .tensor = entry.tensor.name,
                               .element_begin = entry.begin + at / element,
                               .element_end = entry.begin + (at + size) / element,
                               .byte_begin = entry.file_offset + at,
                               .byte_end = entry.file_offset + at + size,
                               .problem = damaged_block(path_, index_.rank, entry, at, size).what()});
  }

  Path path_;
  const ShardIndex& index_;
  VerifyReport& report_;
  const std::function<void(std::uint64_t)>& done_;
  InputFile file_;
  std::uint32_t between_ = 0;  ///< of everything outside tensors so far
  PieceSums sums_;
  bool blocks_good_ = true;  ///< all blocks of this piece so far
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
  for (std::size_t rank = 0; rank < manifest.shards.size(); ++rank) {
    collect(report, manifest.shards[rank].file, static_cast<int>(rank), [&] {
      indexes.push_back(load_shard_index(folder, manifest, rank));
      report.bytes_checked += indexes.back().index_bytes;
    });
  }
  // A missing shard leaves holes; reporting them too would bury the cause.
  if (report.damages.empty()) {
    collect(report, std::string(), -1, [&] { check_digests(manifest, indexes); });
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
  collect(report, std::string(kManifestFile), -1, [&] {
    check_trainer_state(contents.manifest.trainer_state, contents.manifest.step,
                        str("checkpoint '", folder.string(), "': trainer state"));
  });
  for (const auto& attachment : contents.manifest.attachments) {
    const std::string& name = attachment.first;
    collect(report, name, -1,
            [&] { report.bytes_checked += load_attachment(folder, contents.manifest, name).size(); });
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
    collect(report, file, index.rank, [&] { ShardVerification(folder / file, index, report, done).run(); });
  }
  return report;
}

void check_layout(const Path& shard, const ShardIndex& index) {
  const InputFile file = open_input(shard);
  std::vector<std::byte> gap;
  std::uint32_t crc = 0;
  std::uint64_t at = index.index_bytes;
  const auto take = [&](std::uint64_t end) {
    for (; at < end; at += gap.size()) {
      gap.resize(std::min<std::uint64_t>(end - at, kBlockBytes));
      fs::read_at(file.fd, at, gap, Code::kCheckpoint, shard);
      crc = crc32c(gap, crc);
    }
  };
  for (const ShardEntry& entry : index.entries) {
    take(entry.file_offset);
    at = entry.file_offset + entry.bytes;
  }
  take(index.file_bytes);
  if (crc != index.layout_crc)
    throw Error(Code::kCheckpoint, "shard '", shard.string(), "': its HDF5 metadata is damaged");
}

}  // namespace echelon::checkpoint
