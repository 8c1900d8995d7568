#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/files/fs.h"

namespace echelon::tool {

/// Alignment of offsets, sizes and addresses for direct transfers.
inline constexpr std::uint64_t kDirectAlignment = 4096;

/// A file of known size, written in large aligned pieces that bypass the page cache where the file system
/// allows it: going through the cache is several times slower on fast disks. Elsewhere (tmpfs, some network
/// file systems) writes use the cache and write-back is started at once. Keeps existing content, so that a
/// conversion can resume. Any failure is final. read() and write() may be called from several threads.
/// Throws Error(kCheckpoint).
class DirectFile {
 public:
  /// Opens or creates `path` and reserves `bytes` on the disk, so that a full disk shows now.
  DirectFile(fs::Path path, std::uint64_t bytes);

  /// `offset`, the size and the address are multiples of kDirectAlignment; only the end of the file may be
  /// padded beyond its size.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// The same rules.
  void read(std::uint64_t offset, std::span<std::byte> bytes);
  /// Of any size and anywhere, through the page cache; once all of write() is done.
  void write_piece(std::uint64_t offset, std::span<const std::byte> bytes);
  void read_piece(std::uint64_t offset, std::span<std::byte> bytes);
  /// Cuts off the padding, flushes to disk and closes.
  void finish();

 private:
  /// After EINVAL: all threads go through the page cache from now on.
  void give_up_direct();

  fs::Path path_;
  std::uint64_t bytes_;
  fs::Fd fd_;
  fs::Fd cached_;  ///< the same file, never direct
  std::atomic<bool> direct_ = true;
  std::mutex giving_up_;
};

}  // namespace echelon::tool
