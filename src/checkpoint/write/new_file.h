#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/files/fs.h"

namespace echelon::checkpoint {

/// A new file of known size, written at any offsets, durable after finish(). Any failure is final: no
/// write or flush is ever retried, and the destructor removes an unfinished file. Not thread-safe.
class NewFile {
 public:
  /// Creates `path`, which must not exist, and reserves `bytes` on the disk, so that a full disk shows now.
  NewFile(fs::Path path, std::uint64_t bytes);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// The same for large data that is not read soon: bypasses the page cache where the file system allows it,
  /// which is faster and does not evict the trainer's memory. `offset` and address must be multiples of 4
  /// KiB.
  void write_bulk(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Flushes to disk and closes. The folder still needs a flush for the name to be durable.
  void finish();
  /// After finish(): gives the file another name in its folder and flushes the folder. When that last flush
  /// fails the file stays: others may have seen the name.
  void publish(const fs::Path& name);
  /// Closes and removes the file, finished or not; afterwards, and at its destruction, nothing is touched.
  void discard() noexcept;

 private:
  fs::Path path_;
  fs::Fd fd_;
  fs::Fd direct_;  ///< the same file opened to bypass the page cache; none where that is refused
  bool finished_ = false;
};

}  // namespace echelon::checkpoint
