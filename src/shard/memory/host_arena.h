#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/not_copied.h"

namespace echelon {

/// A best-fit allocator for large blocks of host memory. A block is cut from the smallest free range that
/// holds it; adjacent free ranges are merged. Pages are never returned to the system, so the kernel clears
/// each only once; huge pages are used where available. Reserves address space far ahead of use, without
/// memory. Thread-safe.
class HostArena : NotCopied {
 public:
  /// Blocks are multiples of this and aligned to it.
  static constexpr std::size_t kGrain = 256;

  /// All blocks must have been released before.
  ~HostArena();

  /// Returns null if the system has no more address space.
  [[nodiscard]] void* take(std::size_t bytes);
  /// Frees `block` and returns the bytes requested for it; 0: not a block of this arena.
  std::size_t give(void* block);

  /// Returns the free range at the end of each segment to the system, as if it had never been in use.
  void trim();

  /// True for a block whose memory was never lent before; the system has cleared it.
  [[nodiscard]] bool is_fresh(const void* block) const;

  /// High-water mark of the address space in use, gaps included, since the last trim().
  [[nodiscard]] std::size_t reserved_bytes() const;

 private:
  /// A reserved address range; [begin, top) has been in use.
  struct Segment {
    std::byte* begin;
    std::byte* top;
    std::byte* end;
  };
  struct Lent {
    std::size_t bytes;  ///< as requested
    bool fresh;
  };
  [[nodiscard]] std::byte* take_free(std::size_t bytes) ECHELON_REQUIRES(mutex_);
  [[nodiscard]] std::byte* extend(std::size_t bytes, bool& fresh) ECHELON_REQUIRES(mutex_);
  [[nodiscard]] bool add_segment(std::size_t bytes) ECHELON_REQUIRES(mutex_);
  void add_free(std::byte* begin, std::size_t bytes) ECHELON_REQUIRES(mutex_);
  void remove_free(std::map<std::byte*, std::size_t>::iterator piece) ECHELON_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Segment> segments_ ECHELON_GUARDED_BY(mutex_);
  std::map<std::byte*, std::size_t> free_ ECHELON_GUARDED_BY(mutex_);                     ///< by address
  std::set<std::pair<std::size_t, std::byte*>> free_by_size_ ECHELON_GUARDED_BY(mutex_);  ///< the same ranges
  std::unordered_map<const void*, Lent> lent_ ECHELON_GUARDED_BY(mutex_);
};

}  // namespace echelon
