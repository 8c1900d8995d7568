#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fs.h"

namespace echelon::checkpoint {

/// A new file of known size, written at any offsets, durable after finish(). Any failure is final: no write
/// or flush is ever tried again, and the destructor removes an unfinished file. Not thread-safe.
class NewFile {
 public:
  /// Creates `path`, which must not exist, and reserves `bytes` on the disk, so that a full disk shows now.
  NewFile(fs::Path path, std::uint64_t bytes);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Flushes to disk and closes. The folder still needs a flush for the name to be durable.
  void finish();

 private:
  void reserve(std::uint64_t bytes);

  fs::Path path_;
  fs::Fd fd_;
  bool finished_ = false;
};

}  // namespace echelon::checkpoint
