#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/files/fs.h"

namespace echelon::fs {

/// Alignment of offsets, sizes and addresses for transfers that bypass the page cache.
inline constexpr std::size_t kDirectAlignment = 4096;

/// A second descriptor of a file, opened with O_DIRECT, for large data that is not read again soon: going
/// through the page cache is several times slower on fast disks and evicts the trainer's memory. Some file
/// systems refuse O_DIRECT (tmpfs, some network file systems), when the file is opened or later. Therefore
/// each call returns how many bytes it transferred, and the caller transfers the rest through the page cache.
/// Offsets and addresses are multiples of kDirectAlignment. read() and write() may be called from several
/// threads.
class DirectIo {
 public:
  /// `access`: O_RDONLY, O_WRONLY or O_RDWR. If the file cannot be opened with O_DIRECT, each call returns 0.
  DirectIo(Path path, int access, Code code);

  /// Transfer whole multiples of kDirectAlignment. 0: refused, or the end of the file. write() throws
  /// Error(code) for any other failure; read() returns, and the caller's normal read reports the failure.
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
