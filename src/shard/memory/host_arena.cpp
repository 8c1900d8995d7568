#include "shard/memory/host_arena.h"

#include <sys/mman.h>

#include <algorithm>

namespace echelon {
namespace {

/// Address space of a segment, and the minimum, which is tried if a limit (ulimit -v) forbids more.
constexpr std::size_t kSegmentBytes = std::size_t{1} << 40;
constexpr std::size_t kLeastSegmentBytes = std::size_t{64} << 20;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

HostArena::~HostArena() {
  for (const Segment& segment : segments_) {
    munmap(segment.begin, static_cast<std::size_t>(segment.end - segment.begin));
  }
}

void* HostArena::take(std::size_t bytes) {
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kGrain);
  if (size < bytes) return nullptr;
  const Lock lock(mutex_);
  bool fresh = false;
  std::byte* block = take_free(size);
  if (block == nullptr) block = extend(size, fresh);
  if (block != nullptr) lent_[block] = {bytes, fresh};
  return block;
}

std::size_t HostArena::give(void* block) {
  const Lock lock(mutex_);
  const auto found = lent_.find(block);
  if (found == lent_.end()) return 0;
  const std::size_t bytes = found->second.bytes;
  lent_.erase(found);
  add_free(static_cast<std::byte*>(block), round_up(std::max<std::size_t>(bytes, 1), kGrain));
  return bytes;
}

void HostArena::trim() {
  const Lock lock(mutex_);
  for (Segment& segment : segments_) {
    const auto after = free_.lower_bound(segment.top);
    if (after == free_.begin()) continue;
    const auto last = std::prev(after);
    if (last->first < segment.begin || last->first + last->second != segment.top) continue;
    madvise(last->first, last->second, MADV_DONTNEED);  // reads as zero from now on
    segment.top = last->first;
    remove_free(last);
  }
}

bool HostArena::is_fresh(const void* block) const {
  const Lock lock(mutex_);
  const auto found = lent_.find(block);
  return found != lent_.end() && found->second.fresh;
}

std::size_t HostArena::reserved_bytes() const {
  const Lock lock(mutex_);
  std::size_t sum = 0;
  for (const Segment& segment : segments_) sum += static_cast<std::size_t>(segment.top - segment.begin);
  return sum;
}

std::byte* HostArena::take_free(std::size_t bytes) {
  const auto fit = free_by_size_.lower_bound({bytes, nullptr});
  if (fit == free_by_size_.end()) return nullptr;
  const auto [size, begin] = *fit;
  remove_free(free_.find(begin));
  if (size > bytes) add_free(begin + bytes, size - bytes);
  return begin;
}

std::byte* HostArena::extend(std::size_t bytes, bool& fresh) {
  if (segments_.empty() || static_cast<std::size_t>(segments_.back().end - segments_.back().top) < bytes) {
    if (!add_segment(bytes)) return nullptr;
  }
  Segment& segment = segments_.back();
  std::byte* begin = segment.top;
  // If the last range in use is free, the block starts there.
  const auto after = free_.lower_bound(segment.top);
  if (after != free_.begin()) {
    const auto last = std::prev(after);
    if (last->first >= segment.begin && last->first + last->second == segment.top) {
      begin = last->first;
      remove_free(last);
    }
  }
  fresh = begin == segment.top;
  segment.top = begin + bytes;
  return begin;
}

bool HostArena::add_segment(std::size_t bytes) {
  const std::size_t least = std::max(round_up(bytes, kHugePage), kLeastSegmentBytes);
  for (std::size_t size = std::max(kSegmentBytes, least); size >= least; size /= 2) {
    void* const memory =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    madvise(memory, size, MADV_HUGEPAGE);  // a hint; not every kernel has huge pages
    madvise(memory, size, MADV_DONTDUMP);
    auto* const begin = static_cast<std::byte*>(memory);
    segments_.push_back({begin, begin, begin + size});
    return true;
  }
  return false;
}

void HostArena::add_free(std::byte* begin, std::size_t bytes) {
  // Two segments may be adjacent in memory. Free ranges are not merged across their border.
  const auto inside_one_segment = [this](const std::byte* border) ECHELON_REQUIRES(mutex_) {
    return std::none_of(segments_.begin(), segments_.end(),
                        [&](const Segment& s) { return s.begin == border; });
  };
  const auto next = free_.lower_bound(begin);
  if (next != free_.end() && begin + bytes == next->first && inside_one_segment(next->first)) {
    bytes += next->second;
    remove_free(next);
  }
  const auto after = free_.lower_bound(begin);
  if (after != free_.begin()) {
    const auto previous = std::prev(after);
    if (previous->first + previous->second == begin && inside_one_segment(begin)) {
      begin = previous->first;
      bytes += previous->second;
      remove_free(previous);
    }
  }
  free_[begin] = bytes;
  free_by_size_.insert({bytes, begin});
}

void HostArena::remove_free(std::map<std::byte*, std::size_t>::iterator piece) {
  free_by_size_.erase({piece->second, piece->first});
  free_.erase(piece);
}

}  // namespace echelon
