#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/files/fs.h"
#include "data/prepare/sources.h"

namespace echelon::data {

/// The compression of a file.
enum class Packing : std::uint8_t { kNone, kGzip, kZstd };

/// Returns the packing that a file's name states: .gz, .zst, or none.
[[nodiscard]] Packing packing_of(const std::filesystem::path& path);

/// The content of a source file from its start, in parts. A compressed file is decompressed on the way; a
/// file may hold several streams, one behind the other. Not thread-safe.
class SourceStream {
 public:
  /// Throws Error(kData): cannot be opened.
  SourceStream(const SourceFile& file, Packing packing);
  explicit SourceStream(const SourceFile& file) : SourceStream(file, packing_of(file.path)) {}
  ~SourceStream();

  /// Fills `text` from its start and returns how much of it; less than its size only at the end. Throws
  /// Error(kData) naming file and byte: unreadable, shorter than when it was listed, not of the format it is
  /// said to be, damaged, cut short.
  [[nodiscard]] std::size_t read(std::span<char> text);

  /// Bytes of the file used so far.
  [[nodiscard]] std::uint64_t position() const;

  /// The reader of the file's bytes.
  struct Input;
  struct Decoder;

 private:
  std::unique_ptr<Input> input_;
  std::unique_ptr<Decoder> decoder_;
};

/// Throws Error(kData) if the open file has another size than when it was listed.
void check_unchanged(const SourceFile& file, const fs::Fd& fd);

/// The whole content. Throws Error(kData) as SourceStream does, and for more than `most` bytes.
[[nodiscard]] std::string read_source(const SourceFile& file, std::uint64_t most);

}  // namespace echelon::data
