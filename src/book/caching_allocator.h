#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace echelon::book {

/// PyTorch's CUDA caching allocator with its default settings, without memory: which segments it would take
/// from the device, and which pieces of them it would lend (c10/cuda/CUDACachingAllocator.cpp, 2.11: rounding
/// to 512 bytes, segments of 2 MiB for requests up to 1 MiB, of 20 MiB below 10 MiB, else rounded up to 2
/// MiB; best fit; what is left of a piece is split off above 512 bytes of a small segment, 1 MiB of a large
/// one). Not modeled: streams, and what it frees and tries again at the limit of the device.
class CachingAllocator {
 public:
  [[nodiscard]] std::uintptr_t take(std::int64_t bytes);
  void give(std::uintptr_t address);

  void reset_peak() { peak_ = live_; }
  [[nodiscard]] std::int64_t live_bytes() const { return live_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  [[nodiscard]] std::int64_t reserved_bytes() const { return reserved_; }  ///< taken from the device

 private:
  struct Piece {
    std::int64_t bytes = 0;
    std::uintptr_t segment = 0;  ///< address of its first byte
    bool small = false;
    bool lent = false;
    std::int64_t asked = 0;
  };
  using Free = std::set<std::pair<std::int64_t, std::uintptr_t>>;  ///< by size, then by address
  using Pieces = std::map<std::uintptr_t, Piece>;

  [[nodiscard]] Pieces::iterator find(std::int64_t bytes, bool small);
  void join(Pieces::iterator piece);

  Pieces pieces_;
  Free small_;
  Free large_;
  std::uintptr_t next_ = std::uintptr_t{1} << 46;
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t reserved_ = 0;
};

}  // namespace echelon::book
