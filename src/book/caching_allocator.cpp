#include "book/caching_allocator.h"

#include <algorithm>

namespace echelon::book {
namespace {

constexpr std::int64_t kGrain = 512;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kSmall = kMiB;
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kLargeSegment = 20 * kMiB;
constexpr std::int64_t kLeastOwnSegment = 10 * kMiB;
constexpr std::int64_t kSegmentGrain = 2 * kMiB;

std::int64_t rounded(std::int64_t bytes, std::int64_t grain) {
  return (bytes + grain - 1) / grain * grain;
}

std::int64_t segment_for(std::int64_t bytes) {
  if (bytes <= kSmall) return kSmallSegment;
  return bytes < kLeastOwnSegment ? kLargeSegment : rounded(bytes, kSegmentGrain);
}

}  // namespace

CachingAllocator::Pieces::iterator CachingAllocator::find(std::int64_t bytes, bool small) {
  Free& free = small ? small_ : large_;
  if (const auto best = free.lower_bound({bytes, 0}); best != free.end()) {
    const auto piece = pieces_.find(best->second);
    free.erase(best);
    return piece;
  }
  const std::int64_t segment = segment_for(bytes);
  const std::uintptr_t address = next_;
  next_ += static_cast<std::uintptr_t>(segment + kSegmentGrain);  // a gap: segments never join
  reserved_ += segment;
  return pieces_.emplace(address, Piece{.bytes = segment, .segment = address, .small = small}).first;
}

std::uintptr_t CachingAllocator::take(std::int64_t bytes) {
  if (bytes == 0) return 0;
  const std::int64_t needed = std::max(kGrain, rounded(bytes, kGrain));
  const bool small = needed <= kSmall;
  const auto piece = find(needed, small);
  const std::int64_t left = piece->second.bytes - needed;
  if (small ? left >= kGrain : left > kSmall) {
    const std::uintptr_t rest = piece->first + static_cast<std::uintptr_t>(needed);
    pieces_.emplace(rest, Piece{.bytes = left, .segment = piece->second.segment, .small = small});
    (small ? small_ : large_).emplace(left, rest);
    piece->second.bytes = needed;
  }
  piece->second.lent = true;
  piece->second.asked = bytes;
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return piece->first;
}

/// With the free neighbors of its segment.
void CachingAllocator::join(Pieces::iterator piece) {
  Free& free = piece->second.small ? small_ : large_;
  const auto joins = [&](Pieces::iterator other) {
    return !other->second.lent && other->second.segment == piece->second.segment;
  };
  if (const auto next = std::next(piece); next != pieces_.end() && joins(next)) {
    free.erase({next->second.bytes, next->first});
    piece->second.bytes += next->second.bytes;
    pieces_.erase(next);
  }
  if (piece != pieces_.begin() && joins(std::prev(piece))) {
    const auto previous = std::prev(piece);
    free.erase({previous->second.bytes, previous->first});
    previous->second.bytes += piece->second.bytes;
    pieces_.erase(piece);
    piece = previous;
  }
  free.emplace(piece->second.bytes, piece->first);
}

void CachingAllocator::give(std::uintptr_t address) {
  if (address == 0) return;
  const auto piece = pieces_.find(address);
  live_ -= piece->second.asked;
  piece->second.lent = false;
  join(piece);
}

}  // namespace echelon::book
