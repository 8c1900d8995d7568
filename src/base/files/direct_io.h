#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/files/fs.h"

namespace echelon::fs {

/// What transfers past the page cache need offsets, sizes and addresses to be multiples of.
inline constexpr std::size_t kDirectAlignment = 4096;

/// A file opened once more (O_DIRECT), for megabytes that nobody reads again soon: copying them into the page
/// cache and waiting for it to drain is several times slower on fast disks, and takes memory from others.
/// Some file systems refuse it (tmpfs, some on networks), at the opening or later. Therefore each call says
/// how many bytes it has moved, and the caller moves the rest through the page cache. Offsets and addresses
/// are multiples of kDirectAlignment. read() and write() may be called from several threads.
class DirectIo {
 public:
  /// `access`: O_RDONLY, O_WRONLY or O_RDWR. Where the file cannot be opened so, no call moves anything.
  DirectIo(Path path, int access, Code code);

  /// Moves whole multiples of kDirectAlignment; 0 where that is refused, or the end of the file. A write that
  /// fails for any other reason throws Error(code); a read that fails is left to the caller's own to report.
  [[nodiscard]] std::size_t write(std::uint64_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] std::size_t read(std::uint64_t offset, std::span<std::byte> bytes);
  /// Throws Error(code) when the system reports a late write error.
  void close();

 private:
  Path path_;
  Code code_;
  Fd fd_;
  std::atomic<bool> accepted_;
};

}  // namespace echelon::fs
