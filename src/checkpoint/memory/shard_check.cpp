#include "checkpoint/memory/shard_check.h"

#include <algorithm>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/shard_runs.h"

namespace echelon::checkpoint {

ShardCheck::ShardCheck(WantedShard wanted, Told told, std::string what)
    : wanted_(std::move(wanted)), told_(told), what_(std::move(what)) {}

void ShardCheck::take(std::span<const std::byte> bytes) {
  if (!index_) take_index(bytes);
  if (index_) take_rest(bytes);
}

void ShardCheck::take_index(std::span<const std::byte>& bytes) {
  const auto extend = [&](std::uint64_t size) {
    const std::size_t more =
        std::min<std::uint64_t>(bytes.size(), size - std::min<std::uint64_t>(size, head_.size()));
    head_.insert(head_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(more));
    bytes = bytes.subspan(more);
    return head_.size() >= size;
  };
  if (!extend(kIndexHeaderBytes)) return;
  if (!extend(decode_index_head(std::span(head_).first(kIndexHeaderBytes), what_).index_bytes)) return;
  index_ = decode_index(head_, what_);
  const bool meant = index_->rank == wanted_.rank && index_->ranks == wanted_.ranks &&
                     index_->save_id == wanted_.save_id &&
                     told_.index_crc.value_or(index_crc(head_)) == index_crc(head_) &&
                     told_.blocks_crc.value_or(blocks_crc(*index_)) == blocks_crc(*index_);
  if (!meant) {
    throw Error(Code::kCheckpoint, what_, " is of rank ", index_->rank, " of ", index_->ranks, ", save ",
                index_->save_id, ", expected rank ", wanted_.rank, " of ", wanted_.ranks, ", save ",
                wanted_.save_id, ", with the checksums that this rank has told");
  }
  at_ = index_->index_bytes;
  head_ = {};
}

void ShardCheck::take_rest(std::span<const std::byte> bytes) {
  const ShardIndex& index = *index_;
  if (bytes.size() > index.file_bytes - at_)
    throw Error(Code::kCheckpoint, what_, " is longer than the ", index.file_bytes, " bytes it should have");
  for (const Run& run : runs_between(index, at_, at_ + bytes.size())) {
    const auto part = bytes.subspan(run.file_offset - at_, run.bytes);
    if (run.entry == Run::kNoEntry) {
      between_ = crc32c(part, between_);
      continue;
    }
    const ShardEntry& entry = index.entries[run.entry];
    const std::uint64_t in_block = run.at % index.block_bytes;
    block_ = crc32c(part, in_block == 0 ? 0 : block_);
    const bool ends = in_block + run.bytes == index.block_bytes || run.at + run.bytes == entry.bytes;
    if (ends && block_ != index.block_crcs[run.block]) {
      throw Error(Code::kCheckpoint, what_, ": tensor '", entry.tensor.name, "', file bytes ",
                  run.file_offset - in_block, " to ", run.file_offset + run.bytes - 1, ": checksum differs");
    }
  }
  at_ += bytes.size();
  if (at_ == index.file_bytes && between_ != index.layout_crc)
    throw Error(Code::kCheckpoint, what_, ": its HDF5 metadata is damaged");
}

void ShardCheck::finish() const {
  if (index_ && at_ == index_->file_bytes) return;
  throw Error(Code::kCheckpoint, what_, " ends after ", index_ ? at_ : head_.size(),
              " bytes: it was cut short");
}

void read_in_order(const std::filesystem::path& shard,
                   const std::function<void(std::span<const std::byte>)>& take) {
  constexpr std::uint64_t kPart = 1U << 20;
  const InputFile file = open_input(shard);
  std::vector<std::byte> part;
  for (std::uint64_t at = 0; at < file.bytes; at += part.size()) {
    part.resize(std::min(kPart, file.bytes - at));
    fs::read_at(file.fd, at, part, Code::kCheckpoint, shard);
    take(part);
  }
}

}  // namespace echelon::checkpoint
