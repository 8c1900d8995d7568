#include "checkpoint/read/bulk_read.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <tuple>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/direct_io.h"
#include "base/files/fs.h"
#include "base/str.h"
#include "checkpoint/folder/bulk_memory.h"
#include "checkpoint/format/shard_runs.h"

namespace echelon::checkpoint {
namespace {

constexpr std::uint64_t kUnitBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kBorder = fs::kDirectAlignment;

/// Consecutive whole blocks of a shard that are read in one request.
struct Unit {
  std::size_t rank = 0;
  std::uint64_t begin = 0;  ///< file offsets; begin is a multiple of 4 KiB because pieces and blocks are
  std::uint64_t end = 0;
};

/// A shard opened twice: with O_DIRECT for large requests, and normally where that is refused.
class ShardFile {
 public:
  ShardFile(const ShardIndexes& indexes, std::size_t rank)
      : path_(indexes.path(rank)), file_(indexes.open(rank)), direct_(path_, O_RDONLY, Code::kCheckpoint) {}

  /// `to` has room for the request rounded up to 4 KiB.
  void read(std::uint64_t begin, std::span<std::byte> to) {
    const std::size_t rounded = (to.size() + kBorder - 1) / kBorder * kBorder;
    const std::size_t done = begin % kBorder == 0 ? direct_.read(begin, {to.data(), rounded}) : 0;
    if (done < to.size()) fs::read_at(file_.fd, begin + done, to.subspan(done), Code::kCheckpoint, path_);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  InputFile file_;
  fs::DirectIo direct_;
};

/// The blocks that [begin, end) of a piece overlaps, as file offsets.
Unit blocks_of(const ShardIndex& index, const WantedPart& part) {
  const ShardEntry& entry = index.entries[part.entry];
  const std::uint64_t block = index.block_bytes;
  return {part.rank, entry.file_offset + part.begin / block * block,
          entry.file_offset + std::min(entry.bytes, (part.end + block - 1) / block * block)};
}

/// A part in file order. Parts may contain one another, so their ends need not increase. `reach`, the running
/// maximum of the ends, does, which allows a binary search.
struct OrderedPart : WantedPart {
  std::uint64_t reach = 0;  ///< largest end of this part and those before it in the same piece
};

class BulkRead {
 public:
  BulkRead(const ShardIndexes& indexes, std::span<const WantedPart> parts) : indexes_(indexes) {
    for (const WantedPart& part : parts) parts_.push_back({part, part.end});
    std::ranges::sort(parts_, {}, [](const WantedPart& a) { return std::tuple(a.rank, a.entry, a.begin); });
    const OrderedPart* before = nullptr;
    for (OrderedPart& part : parts_) {
      if (before != nullptr && before->rank == part.rank && before->entry == part.entry)
        part.reach = std::max(part.end, before->reach);
      before = &part;
    }
    files_.resize(indexes.ranks());
    for (const WantedPart& part : parts_) {
      if (!files_[part.rank]) files_[part.rank] = std::make_unique<ShardFile>(indexes, part.rank);
      add(blocks_of(indexes.of(part.rank), part));
    }
  }

  void run(int threads) {
    std::vector<std::future<void>> helpers;  // waits for the threads when it goes
    const int wanted = std::min(threads, static_cast<int>(units_.size()));
    for (int i = 1; i < wanted; ++i) helpers.push_back(std::async(std::launch::async, [this] { work(); }));
    work();
    for (std::future<void>& helper : helpers) helper.get();
  }

 private:
  /// Appends blocks. Joins them with the previous unit if they are adjacent and it has room; the padding
  /// between two pieces is then read as well.
  void add(Unit blocks) {
    if (!units_.empty() && units_.back().rank == blocks.rank) {
      Unit& last = units_.back();
      if (blocks.begin < last.end) blocks.begin = last.end;  // already in the unit
      if (blocks.begin >= blocks.end) return;
      const bool near = blocks.begin - last.end < kBorder;
      if (near && blocks.end - last.begin <= kUnitBytes) {
        last.end = blocks.end;
        return;
      }
    }
    const std::uint64_t block = indexes_.of(blocks.rank).block_bytes;
    const std::uint64_t step = std::max(block, kUnitBytes / block * block);
    for (std::uint64_t at = blocks.begin; at < blocks.end; at += step)
      units_.push_back({blocks.rank, at, std::min(blocks.end, at + step)});
  }

  void work() {
    try {
      std::optional<BulkMemory> buffer;
      for (std::size_t i = next_++; i < units_.size() && !failed_; i = next_++) {
        const Unit& unit = units_[i];
        const std::uint64_t size = unit.end - unit.begin;
        if (!buffer || size > buffer->bytes().size())
          buffer.emplace(std::max(kUnitBytes, (size + kBorder - 1) / kBorder * kBorder));
        const std::span<std::byte> bytes = buffer->bytes().first(size);
        in_context(first_of(unit), [&] { files_[unit.rank]->read(unit.begin, bytes); });
        deliver(unit, bytes);
      }
    } catch (...) {
      failed_ = true;
      throw;
    }
  }

  /// Names the first tensor of a unit, for errors.
  [[nodiscard]] std::string first_of(const Unit& unit) const {
    const ShardIndex& index = indexes_.of(unit.rank);
    const Run run = runs_between(index, unit.begin, unit.begin + 1).front();
    return str("tensor '", index.entries[run.entry].tensor.name, "' of rank ", index.rank);
  }

  void deliver(const Unit& unit, std::span<const std::byte> bytes) const {
    const ShardIndex& index = indexes_.of(unit.rank);
    for (const Run& run : runs_between(index, unit.begin, unit.end)) {
      if (run.entry == Run::kNoEntry) continue;
      const auto block = bytes.subspan(run.file_offset - unit.begin, run.bytes);
      // Bytes are delivered before their checksum is known; on a mismatch the whole read fails, and its
      // buffers are undefined by contract.
      if (give(unit.rank, run, block) != index.block_crcs[run.block]) {
        throw damaged_block(files_[unit.rank]->path(), index.rank, index.entries[run.entry], run.at,
                            run.bytes);
      }
    }
  }

  /// Copies the wanted bytes of a block; returns the block's checksum. In the usual case, one part that
  /// contains the whole block, copy and checksum are one pass.
  [[nodiscard]] std::uint32_t give(std::size_t rank, const Run& run, std::span<const std::byte> block) const {
    const std::uint64_t block_end = run.at + run.bytes;
    auto part = std::ranges::partition_point(parts_, [&](const OrderedPart& p) {
      return std::tuple(p.rank, p.entry) < std::tuple(rank, run.entry) ||
             (std::tuple(p.rank, p.entry) == std::tuple(rank, run.entry) && p.reach <= run.at);
    });
    const auto wants = [&](auto at) {
      return at != parts_.end() && at->rank == rank && at->entry == run.entry && at->begin < block_end;
    };
    const bool alone = wants(part) && !wants(part + 1);
    if (alone && part->begin <= run.at && part->end >= block_end)
      return crc32c_copy({part->to + (run.at - part->begin), run.bytes}, block);
    for (; wants(part); ++part) {
      const std::uint64_t from = std::max(part->begin, run.at);
      const std::uint64_t to = std::min(part->end, block_end);
      if (from < to) std::memcpy(part->to + (from - part->begin), block.data() + (from - run.at), to - from);
    }
    return crc32c(block);
  }

  const ShardIndexes& indexes_;
  std::vector<OrderedPart> parts_;  ///< in file order
  std::vector<std::unique_ptr<ShardFile>> files_;
  std::vector<Unit> units_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace

void read_parts(const ShardIndexes& indexes, std::span<const WantedPart> parts, int threads) {
  BulkRead(indexes, parts).run(threads);
}

Error damaged_block(const std::filesystem::path& file, int rank, const ShardEntry& entry, std::uint64_t at,
                    std::uint64_t size) {
  const std::uint64_t element = size_of(entry.tensor.dtype);
  return {Code::kCheckpoint,
          str("shard '", file.string(), "' (rank ", rank, ") is damaged: tensor '", entry.tensor.name,
              "', elements ", entry.begin + at / element, " to ", entry.begin + (at + size) / element - 1,
              ", file bytes ", entry.file_offset + at, " to ", entry.file_offset + at + size - 1,
              ": checksum differs")};
}

}  // namespace echelon::checkpoint
