#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/not_copied.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/read/shard_indexes.h"

namespace echelon::checkpoint {

/// A committed checkpoint opened for reading. Opening checks COMMIT -> MANIFEST -> every shard's size and
/// what it holds, and reads no tensor bytes; the checksums of the blocks of a large shard are read and
/// checked when something of that shard is first read, so that a rank takes memory for what it needs. Never
/// lets libhdf5 parse anything. read() may be called from several threads.
class Reader : NotCopied {
 public:
  /// `folder`: a step folder, or a run folder / checkpoints folder for its newest commit. Throws
  /// Error(kCheckpoint).
  explicit Reader(const std::filesystem::path& folder);
  /// Of what was opened and checked before.
  explicit Reader(Contents contents);

  [[nodiscard]] const std::filesystem::path& folder() const { return outline_.folder; }
  [[nodiscard]] std::int64_t step() const { return outline_.manifest.step; }
  [[nodiscard]] const std::string& save_id() const { return outline_.manifest.save_id; }
  [[nodiscard]] const std::string& resumed_from() const { return outline_.manifest.resumed_from; }
  /// The world size that wrote it.
  [[nodiscard]] int ranks() const { return static_cast<int>(indexes_.ranks()); }
  [[nodiscard]] const std::string& trainer_state() const { return outline_.manifest.trainer_state; }
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return outline_.manifest.tensors; }
  [[nodiscard]] const TensorInfo* find(const std::string& name) const;  ///< null when absent
  /// The pieces lie by rising begin. Reading in steps of 64 KiB from a piece's begin touches no checksum
  /// block twice.
  [[nodiscard]] const std::vector<StoredPiece>& pieces(const std::string& name) const;
  /// CRC32C of the whole tensor's bytes as they were in memory at the save, whatever the sharding; reads
  /// nothing.
  [[nodiscard]] std::uint32_t checksum(const std::string& name) const;
  /// CRC-64/NVME of the same; nothing for a checkpoint of format 1.0, which has none.
  [[nodiscard]] std::optional<std::uint64_t> fingerprint(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> attachments() const;
  [[nodiscard]] bool has_attachment(const std::string& name) const {
    return outline_.manifest.attachments.contains(name);
  }
  [[nodiscard]] std::string attachment(const std::string& name) const;  ///< verified content

  /// Elements [begin, end) of the flattened tensor, from however many shards hold them. Checksums of every
  /// block touched are verified on the bytes delivered. `out`: exactly (end - begin) * size_of(dtype) bytes.
  void read(const std::string& tensor, std::uint64_t begin, std::uint64_t end,
            std::span<std::byte> out) const;

  /// The bytes of a whole tensor, in order, a few MiB at a time. Throws what `take` throws, too.
  void read_in_parts(const std::string& tensor,
                     const std::function<void(std::span<const std::byte>)>& take) const;
  /// One of many reads: elements [begin, end) of `tensor` into `out`, as for read().
  struct Request {
    std::string tensor;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::span<std::byte> out;
  };
  /// All of them at the speed of the disk, on a few internal threads with 8 MiB of memory each. Reads only
  /// the checksum blocks that hold wanted bytes. Throws as read() does; the buffers are undefined then.
  void read_many(std::span<const Request> requests) const;

 private:
  struct Piece;
  void number_tensors();
  /// Throws where there is no such tensor.
  [[nodiscard]] std::size_t number_of(const std::string& name) const;
  /// The size of the tensor's elements. Throws unless elements [begin, end) exist and fill `out` exactly.
  [[nodiscard]] std::size_t checked(const std::string& name, std::uint64_t begin, std::uint64_t end,
                                    std::size_t out) const;
  /// Loads the index of its shard. Throws if it differs from what was read when the checkpoint was opened.
  [[nodiscard]] Piece piece_of(const std::string& name, const StoredPiece& stored) const;
  void read_piece(const Piece& piece, std::uint64_t begin, std::uint64_t end, std::span<std::byte> out) const;

  Outline outline_;
  ShardIndexes indexes_;
  std::unordered_map<std::string_view, std::size_t> numbers_;  ///< of the manifest's tensors, by name
};

}  // namespace echelon::checkpoint
