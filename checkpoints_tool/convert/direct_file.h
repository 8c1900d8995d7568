#pragma once
#include <cstdint>
#include <span>

#include "base/files/direct_io.h"
#include "base/files/fs.h"

namespace echelon::tool {

/// A file of known size, written in large aligned pieces that bypass the page cache where the file system
/// allows it (fs::DirectIo). Elsewhere writes use the cache and write-back is started at once. Keeps existing
/// content, so that a conversion can resume. Any failure is final. read() and write() may be called from
/// several threads. Throws Error(kCheckpoint).
class DirectFile {
 public:
  /// Opens or creates `path` and reserves `bytes` on the disk, so that a full disk shows now.
  DirectFile(fs::Path path, std::uint64_t bytes);

  /// `offset` and the address are multiples of fs::kDirectAlignment; so is the size, except at the file's
  /// end.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Reads by the rules of write().
  void read(std::uint64_t offset, std::span<std::byte> bytes);
  /// Writes any number of bytes anywhere, through the page cache. Call it only after the last write().
  void write_piece(std::uint64_t offset, std::span<const std::byte> bytes);
  void read_piece(std::uint64_t offset, std::span<std::byte> bytes);
  /// Flushes to disk and closes.
  void finish();

 private:
  fs::Path path_;
  std::uint64_t bytes_;
  fs::Fd fd_;
  fs::DirectIo direct_;
};

}  // namespace echelon::tool
