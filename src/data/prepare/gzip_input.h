#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "data/prepare/source_stream.h"

namespace echelon::data {

/// A regular file read from front to back. It is decompressed if its first bytes, not its name, mark it as
/// gzip. Not thread-safe.
class GzipInput {
 public:
  /// Throws Error(kData): missing, unreadable, not a regular file.
  explicit GzipInput(const std::filesystem::path& path);

  /// Fills `bytes`, or as much of it as there is before the end; returns how much. Throws Error(kData) as
  /// SourceStream does.
  [[nodiscard]] std::size_t read(std::span<std::byte> bytes);

  /// Upper limit of the uncompressed size, to check claims about the content before memory is allocated.
  /// Deflate expands 1 byte to at most 1032 (zlib's technical notes).
  [[nodiscard]] std::uint64_t most_bytes() const { return most_bytes_; }

 private:
  struct File {
    SourceFile source;
    Packing packing = Packing::kNone;
  };
  static File look_at(const std::filesystem::path& path);
  explicit GzipInput(const File& file);

  SourceStream stream_;
  std::uint64_t most_bytes_;
};

}  // namespace echelon::data
