#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoints_tool/convert/output_plan.h"
#include "checkpoints_tool/convert/tensor_source.h"
#include "checkpoints_tool/merged_read.h"

namespace echelon::tool {

/// The record of a finished window or tile: enough to recognize it on disk, and to prove at the end that
/// all windows together contain what was saved.
struct WindowRecord {
  std::uint64_t window = 0;  ///< number in windows_of(); of a tile, its number in tiles_of() behind them
  std::uint32_t crc = 0;     ///< of its bytes as they were written
  std::vector<std::uint32_t> parts;  ///< of the checkpoint's bytes behind each of parts_of(); 0 if transposed
};

/// Produces the bytes of windows and tiles from a checkpoint: reads ranges (the source verifies every
/// byte), converts, transposes. Needs kWindowFillerBytes of memory
/// for any tensor size, and merge_bytes() for what is added. One per thread.
class WindowFiller {
 public:
  explicit WindowFiller(const TensorSource& source) : source_(source), merged_(source.reader()) {}

  /// `out`: window.end - window.begin bytes. The record's number is left to the caller, here and below.
  /// Zeros where a transposed tensor lies.
  WindowRecord fill(const OutputFile& file, const Window& window, std::span<std::byte> out);

  /// `out`: tile.bytes() bytes, column after column. Every element of the tile is read once.
  WindowRecord fill(const Tile& tile, std::span<std::byte> out);

 private:
  std::uint32_t fill_part(const Part& part, std::span<std::byte> out);
  /// Elements [begin, end) of the source, read and converted; valid until the next call.
  std::span<const std::byte> converted(const OutputTensor& tensor, std::uint64_t begin, std::uint64_t end);

  const TensorSource& source_;
  std::vector<std::byte> in_;
  std::vector<std::byte> converted_;
  MergedRead merged_;
  std::vector<float> sums_;
};

/// Elements are read this many bytes at a time where they cannot be read in place.
inline constexpr std::uint64_t kScratchBytes = std::uint64_t{2} << 20;
/// Elements at a time of a tensor to which something is added: at most kScratchBytes of source.
inline constexpr std::uint64_t kMergedElements = kScratchBytes / sizeof(double);
/// Source bytes, converted bytes (at most twice as wide), and the reader's own block.
inline constexpr std::uint64_t kWindowFillerBytes = 4 * kScratchBytes;

}  // namespace echelon::tool
