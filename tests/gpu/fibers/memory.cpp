#include "gpu/fibers/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "base/str.h"
#include "gpu/fibers/symbols.h"

namespace echelon::fibers {
namespace {

constexpr std::size_t kGap = 4096;  ///< in front of and behind every piece of memory: nobody's
constexpr std::size_t kBorder = 256;
/// The same around reserved memory, where a wrong index leads.
constexpr std::size_t kFar = std::size_t{1} << 34;

bool same_thread(const Moment& a, const Moment& b) {
  return a.block == b.block && a.thread == b.thread;
}
/// Nothing orders the two, if they are of different threads.
bool unordered(const Moment& before, const Moment& now) {
  return before.launch == now.launch && !same_thread(before, now) &&
         (before.block != now.block || before.epoch == now.epoch);
}
std::string who(const Moment& moment) {
  return str("thread ", moment.thread, " of block ", moment.block);
}

}  // namespace

std::optional<Wrong> Piece::read(Cell& cell, const Moment& now) {
  const bool same_launch = cell.read.launch == now.launch;
  const bool same_epoch = same_launch && cell.read.block == now.block && cell.read.epoch == now.epoch;
  cell.read_by_blocks = same_launch && (cell.read_by_blocks || cell.read.block != now.block);
  cell.read_by_threads = same_epoch && (cell.read_by_threads || cell.read.thread != now.thread);
  cell.read = now;
  if (!cell.written) return Wrong{Kind::kUnwritten, "what nobody has written"};
  if (!unordered(cell.write, now)) return {};
  return Wrong{Kind::kUnordered, str("what ", who(cell.write), " writes, and nothing orders the two")};
}

std::optional<Wrong> Piece::write(Cell& cell, const Moment& now) {
  const Moment before = cell.write;
  cell.written = true;
  cell.write = now;
  if (unordered(before, now)) {
    return Wrong{Kind::kUnordered, str("what ", who(before), " writes, too, and nothing orders the two")};
  }
  if (cell.read.launch != now.launch) return {};
  const bool same_epoch = cell.read.block == now.block && cell.read.epoch == now.epoch;
  if (unordered(cell.read, now))
    return Wrong{Kind::kUnordered, str("what ", who(cell.read), " reads, and nothing orders the two")};
  if (cell.read_by_blocks || (same_epoch && cell.read_by_threads))
    return Wrong{Kind::kUnordered, "what another thread reads, and nothing orders the two"};
  return {};
}

Piece Piece::without_books(std::size_t begin, std::size_t bytes) {
  Piece piece;
  piece.begin_ = begin;
  piece.bytes_ = bytes;
  return piece;
}

std::optional<Wrong> Piece::touch(std::size_t at, std::size_t bytes, Access access, const Moment& now,
                                  bool per_block) {
  touched_end_ = std::max(touched_end_, at + bytes);
  if (cells_.empty()) return {};
  std::optional<Wrong> wrong;
  for (std::size_t n = (at - begin_) / 2; n <= (at + bytes - 1 - begin_) / 2; ++n) {
    Cell& cell = cells_[n];
    if (per_block && (cell.write.launch != now.launch || cell.write.block != now.block)) cell = {};
    auto one = access == Access::kRead ? read(cell, now) : write(cell, now);
    if (one && !wrong) wrong = std::move(one);
  }
  return wrong;
}

void Piece::fill(std::size_t at, std::size_t bytes) {
  for (std::size_t cell = (at - begin_) / 2; 2 * cell < at + bytes - begin_; ++cell) {
    cells_[cell] = {};
    cells_[cell].written = true;
  }
}

bool Piece::is_full(std::size_t at, std::size_t bytes) const {
  for (std::size_t cell = (at - begin_) / 2; 2 * cell < at + bytes - begin_; ++cell) {
    if (!cells_[cell].written) return false;
  }
  return true;
}

Memory& Memory::only() {
  static Memory memory;
  return memory;
}

void* Memory::allocate(std::size_t bytes) {
  const std::size_t whole = (bytes + 2 * kGap + kBorder - 1) / kBorder * kBorder;
  auto* begin = static_cast<std::byte*>(std::aligned_alloc(kBorder, whole));
  if (begin == nullptr) return nullptr;
  const auto at = reinterpret_cast<std::size_t>(begin) + kGap;
  device_.emplace(at, Piece(at, bytes));
  return begin + kGap;
}

bool Memory::release(void* pointer) {
  const auto found = device_.find(reinterpret_cast<std::size_t>(pointer));
  if (found == device_.end()) return false;
  last_ = nullptr;
  device_.erase(found);
  std::free(static_cast<std::byte*>(pointer) - kGap);
  return true;
}

void* Memory::reserve(std::size_t bytes) {
  void* begin = ::mmap(nullptr, bytes + 2 * kFar, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return nullptr;
  const auto at = reinterpret_cast<std::size_t>(begin) + kFar;
  device_.emplace(at, Piece::without_books(at, bytes));
  return static_cast<std::byte*>(begin) + kFar;
}

void Memory::unreserve(void* pointer) {
  const auto found = device_.find(reinterpret_cast<std::size_t>(pointer));
  const std::size_t bytes = found->second.end() - found->second.begin();
  last_ = nullptr;
  device_.erase(found);
  ::munmap(static_cast<std::byte*>(pointer) - kFar, bytes + 2 * kFar);
}

Piece* Memory::find(const void* pointer, std::size_t bytes) {
  const auto at = reinterpret_cast<std::size_t>(pointer);
  if (last_ != nullptr && last_->holds(at, bytes)) return last_;
  auto after = device_.upper_bound(at);
  if (after == device_.begin()) return nullptr;
  Piece& piece = std::prev(after)->second;
  if (!piece.holds(at, bytes)) return nullptr;
  return last_ = &piece;
}

Wrong Memory::past_the_end(std::size_t at, std::size_t bytes) const {
  const auto after = device_.upper_bound(at);
  if (after != device_.begin()) {
    const Piece& below = std::prev(after)->second;
    const std::size_t from = at - below.begin();
    if (at < below.end() + kGap) {
      return {Kind::kPastTheEnd, str("memory past the end of an allocation (bytes ", from, " to ",
                                     from + bytes, " of ", below.end() - below.begin(), ")")};
    }
  }
  if (after != device_.end() && at + kGap >= after->second.begin())
    return {Kind::kPastTheEnd,
            str("memory ", after->second.begin() - at, " bytes in front of an allocation")};
  return {Kind::kNotTheDevices, "memory that is not the device's"};
}

std::optional<Wrong> Memory::touch_shared(std::size_t at, std::size_t bytes, Access access,
                                          const Moment& now) {
  const Symbol* variable = symbol_at(reinterpret_cast<const void*>(at));
  if (variable != nullptr && !variable->function && !shared_.contains(variable->begin))
    shared_.emplace(variable->begin, Piece(variable->begin, variable->bytes));
  const auto after = shared_.upper_bound(at);
  if (after == shared_.begin() || at >= std::prev(after)->second.end() + kGap) return past_the_end(at, bytes);
  Piece& piece = std::prev(after)->second;
  if (!piece.holds(at, bytes)) {
    return Wrong{Kind::kPastTheEnd,
                 str("shared memory past the end of ", piece.end() - piece.begin(), " bytes")};
  }
  auto wrong = piece.touch(at, bytes, access, now, true);
  if (wrong) wrong->what = "in shared memory " + wrong->what;
  if (!fits(piece, now.launch))
    return Wrong{Kind::kTooMuchShared,
                 str("the last of ", used_bytes_, " bytes of shared memory; a block has ", most_shared_)};
  return wrong;
}

bool Memory::fits(const Piece& piece, std::uint32_t launch) {
  if (used_by_ != launch) {
    used_by_ = launch;
    used_.clear();
    used_bytes_ = 0;
  }
  if (used_.insert(piece.begin()).second) used_bytes_ += piece.end() - piece.begin();
  return used_bytes_ <= most_shared_;
}

std::optional<Wrong> Memory::touch(const void* pointer, std::size_t bytes, Access access, const Moment& now) {
  const auto at = reinterpret_cast<std::size_t>(pointer);
  Piece* piece = find(pointer, bytes);
  if (piece != nullptr && access == Access::kRead) read_bytes_ += bytes;
  if (piece != nullptr) return piece->touch(at, bytes, access, now, false);
  if (!is_constant(pointer)) return touch_shared(at, bytes, access, now);
  if (access == Access::kRead) return {};
  return Wrong{Kind::kNotTheDevices, "a constant"};
}

void* Memory::shared(std::size_t bytes, std::size_t most) {
  most_shared_ = most;
  if (!dynamic_.empty()) shared_.erase(reinterpret_cast<std::size_t>(dynamic_.data()));
  dynamic_.assign(bytes + kGap, std::byte{0xFF});
  const auto at = reinterpret_cast<std::size_t>(dynamic_.data());
  shared_.emplace(at, Piece(at, bytes));
  return dynamic_.data();
}

}  // namespace echelon::fibers
