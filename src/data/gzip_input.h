#pragma once
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace echelon::data {

/// A regular file read from front to back, through gunzip when its first bytes say that it is gzip. Not
/// thread-safe.
class GzipInput {
 public:
  /// Throws Error(kData): missing, unreadable, not a regular file.
  explicit GzipInput(std::filesystem::path path);

  /// Fills `bytes`, or as much of it as there is before the end; returns how much. Throws Error(kData): cut
  /// short inside compressed data, damaged (gzip's own checksum), unreadable.
  std::size_t read(std::span<std::byte> bytes);

  /// Most bytes that can still come out of the file, read so far included: what a claim about its content can
  /// be compared with before memory is taken for it. Deflate expands 1 byte to at most 1032.
  [[nodiscard]] std::uint64_t most_bytes() const { return most_bytes_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { ::gzclose_r(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::uint64_t most_bytes_ = 0;
};

}  // namespace echelon::data
