#include "checkpoint/write/shard_write.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <thread>

#include "base/caught.h"
#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/kill_point.h"
#include "base/process/process.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

/// A step folder belongs to one attempt, so an existing file belongs to somebody else.
std::filesystem::path unused(std::filesystem::path path) {
  if (entry_exists(path)) {
    throw Error(Code::kCheckpoint, "cannot create '", path.string(), "': ", fs::reason(EEXIST));
  }
  return path;
}

/// The plan fixes the layout; the slices must have the planned sizes.
ShardPlan checked(ShardPlan plan, const std::vector<Slice>& slices) {
  for (std::size_t i = 0; i < plan.index.entries.size(); ++i) {
    const ShardEntry& entry = plan.index.entries[i];
    const Slice& slice = slices.at(plan.sources[i]);
    const bool same =
        slice.tensor.name == entry.tensor.name && slice.begin == entry.begin && slice.end == entry.end;
    if (same && (slice.read || slice.bytes.size() == entry.bytes)) continue;
    throw Error(Code::kCheckpoint, "tensor '", slice.tensor.name, "': elements ", slice.begin, " to ",
                slice.end, " need ", entry.bytes, " bytes, got ", slice.bytes.size());
  }
  return plan;
}

}  // namespace

ShardWrite::ShardWrite(const std::filesystem::path& folder, ShardPlan plan, std::vector<Slice> slices,
                       Staging& staging, const WriteLimits& limits)
    : path_(unused(folder / shard_file_name(plan.index.rank, plan.index.ranks))),
      plan_(checked(std::move(plan), slices)),
      slices_(std::move(slices)),
      staging_(&staging),
      limits_(limits),
      began_s_(limits_.now_s()),
      file_(path_.string() + std::string(kUnfinished), Code::kCheckpoint) {
  if (limits_.reserves) file_.reserve(plan_.index.file_bytes);
  kill_point("reserved");
}

void ShardWrite::stage() {
  try {
    const ShardIndex& index = plan_.index;
    for (std::uint64_t at = index.index_bytes; at < index.file_bytes; at += Staging::kWindowBytes) {
      const std::span<std::byte> window = staging_->take_free([this] { return left_s(); });
      if (window.empty()) return staging_->stop();  // write() has failed, or is too late; it reports that
      const auto used = window.first(std::min<std::uint64_t>(Staging::kWindowBytes, index.file_bytes - at));
      fill(used, at);
      staging_->put_full(used);
    }
    kill_point("staged");
  } catch (...) {
    stage_error_ = caught();
    staging_->stop();
    throw;
  }
}

void ShardWrite::fill(std::span<std::byte> window, std::uint64_t file_offset) {
  ShardIndex& index = plan_.index;
  for (const Run& run : runs_between(index, file_offset, file_offset + window.size())) {
    const auto to = window.subspan(run.file_offset - file_offset, run.bytes);
    if (run.entry == Run::kNoEntry) {
      const std::uint64_t at = run.file_offset - index.index_bytes;
      const std::size_t metadata =
          std::min<std::uint64_t>(run.bytes, plan_.metadata.size() - std::min(at, plan_.metadata.size()));
      if (metadata != 0) std::memcpy(to.data(), plan_.metadata.data() + at, metadata);
      std::memset(to.data() + metadata, 0, to.size() - metadata);
      continue;
    }
    const Slice& slice = slices_[plan_.sources[run.entry]];
    std::uint32_t& crc = index.block_crcs[run.block];
    if (slice.read) {
      slice.read(run.at, to);
      crc = crc32c(to, crc);
    } else {
      // One pass over memory: the checksum is taken from the source bytes as they are copied.
      crc = crc32c_copy(to, slice.bytes.subspan(run.at, run.bytes), crc);
    }
  }
}

void ShardWrite::check(std::span<const std::byte> window, std::uint64_t file_offset) {
  ShardIndex& index = plan_.index;
  for (const Run& run : runs_between(index, file_offset, file_offset + window.size())) {
    if (run.entry == Run::kNoEntry) continue;
    const auto bytes = window.subspan(run.file_offset - file_offset, run.bytes);
    const auto block = sums_.add(index, run, bytes);
    if (!block) continue;
    ShardEntry& entry = index.entries[run.entry];
    // A second checksum, of the copy, right before the write. It covers the time the copy spent in memory.
    if (block->crc != index.block_crcs[run.block]) {
      throw Error(Code::kCheckpoint, "tensor '", entry.tensor.name,
                  "' changed in memory between its copy and its write (", "around element ",
                  entry.begin + run.at / size_of(entry.tensor.dtype),
                  "): failing memory, or a defect; this save is discarded");
    }
    if (!block->ends_piece) continue;
    entry.crc = sums_.crc();
    entry.fingerprint = sums_.fingerprint();
  }
}

double ShardWrite::left_s() const {
  if (limits_.timeout_s <= 0) return std::numeric_limits<double>::infinity();
  return began_s_ + limits_.timeout_s - limits_.now_s();
}

void ShardWrite::slow_down(std::uint64_t written, double writing_since_s) const {
  if (limits_.bytes_per_s > 0) {
    // Sleeps until the bytes written so far are due at the allowed rate.
    const double due =
        writing_since_s + static_cast<double>(written) / static_cast<double>(limits_.bytes_per_s);
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::max(0.0, std::min(due - limits_.now_s(), left_s()))));
  }
  if (left_s() > 0) return;
  throw Error(Code::kCheckpoint, "not written within ", std::lround(limits_.timeout_s),
              " s (checkpoint.timeout_s): ", human_bytes(written), " of ",
              human_bytes(plan_.index.file_bytes), " written; the disk is too slow");
}

void ShardWrite::write_windows() {
  const double began = limits_.now_s();
  const std::uint64_t first = plan_.index.index_bytes;
  for (std::uint64_t at = first; at < plan_.index.file_bytes;) {
    const std::span<std::byte> window = staging_->take_full();
    if (window.empty()) throw Error(Code::kCheckpoint, stage_error_.empty() ? "given up" : stage_error_);
    check(window, at);
    file_.write_bulk(at, window);
    kill_point("window");
    at += window.size();
    staging_->put_free({window.data(), Staging::kWindowBytes});
    slow_down(at - first, began);
  }
}

void ShardWrite::write() {
  try {
    write_windows();
    // Last, so that an interrupted shard has no index and cannot be mistaken for a complete one.
    file_.write(0, encode_index(plan_.index));
    kill_point("index");
    file_.finish();
    kill_point("flushed");
    file_.rename(path_);
    kill_point("named");
    fs::fsync_directory(path_.parent_path(), Code::kCheckpoint);
    kill_point("durable");
  } catch (...) {
    staging_->stop();
    // Nothing is retried: after a failed write or flush the state of the file is unknown.
    file_.discard();
    throw;
  }
}

void write_shard(const std::filesystem::path& folder, int rank, int ranks, const std::string& save_id,
                 std::vector<Slice> slices) {
  in_context(str("cannot save rank ", rank, "'s shard on ", host_name()), [&] {
    Staging pipe(Staging::kPipeWindows * Staging::kWindowBytes);
    ShardPlan plan = plan_shard(rank, ranks, save_id, slices);
    ShardWrite shard(folder, std::move(plan), std::move(slices), pipe, {});
    std::future<void> stager = std::async(std::launch::async, [&] { shard.stage(); });
    try {
      shard.write();
    } catch (...) {
      stager.get();  // write() knows only the text of what that throws
      throw;
    }
  });
}

}  // namespace echelon::checkpoint
