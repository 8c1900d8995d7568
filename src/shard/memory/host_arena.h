#pragma once
#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace echelon {

/// Large blocks of host memory, best fit: a block is cut from the smallest free piece that holds it, and free
/// neighbours become one piece again. Pages come from the system once, as huge pages where it has them, and
/// stay; so memory is cleared once and not at every use. Address space is reserved far ahead of use, which
/// costs nothing. Thread-safe.
class HostArena {
 public:
  /// Blocks are multiples of this and aligned to it.
  static constexpr std::size_t kGrain = 256;

  HostArena() = default;
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;
  /// All blocks must have come back.
  ~HostArena();

  /// Null when the system gives no more address space.
  [[nodiscard]] void* take(std::size_t bytes);
  /// Returns the bytes that were asked for; 0: not a block of this arena.
  std::size_t give(void* block);

  /// Is this a lent block of which no byte was ever lent before? Then the system has cleared it.
  [[nodiscard]] bool is_fresh(const void* block) const;

  /// Bytes ever lent at the same time, gaps included: what the system had to provide.
  [[nodiscard]] std::size_t reserved_bytes() const;

 private:
  /// An address range; [begin, top) has been in use.
  struct Segment {
    std::byte* begin;
    std::byte* top;
    std::byte* end;
  };
  struct Lent {
    std::size_t bytes;  ///< asked for
    bool fresh;
  };
  [[nodiscard]] std::byte* take_free(std::size_t bytes);
  [[nodiscard]] std::byte* extend(std::size_t bytes, bool& fresh);
  [[nodiscard]] bool add_segment(std::size_t bytes);
  void add_free(std::byte* begin, std::size_t bytes);
  void remove_free(std::map<std::byte*, std::size_t>::iterator piece);

  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  std::map<std::byte*, std::size_t> free_;                     ///< by address
  std::set<std::pair<std::size_t, std::byte*>> free_by_size_;  ///< the same pieces
  std::unordered_map<const void*, Lent> lent_;
};

}  // namespace echelon
