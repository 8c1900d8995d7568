#include "checkpoint/staging.h"

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/str.h"

namespace echelon::checkpoint {

namespace {

BulkMemory take_memory(std::uint64_t bytes) {
  try {
    return BulkMemory(bytes);
  } catch (const std::bad_alloc&) {
    throw Error(Code::kCheckpoint, str("cannot get ", human_bytes(bytes),
                                       " of memory to copy the state to before it is written; set ",
                                       "checkpoint.async to false, which needs none"));
  }
}

}  // namespace

Staging::Staging(std::uint64_t bytes)
    : memory_(
          take_memory(std::max<std::uint64_t>(2, (bytes + kWindowBytes - 1) / kWindowBytes) * kWindowBytes)) {
  reset();
}

void Staging::reset() {
  full_.clear();
  free_.clear();
  stopped_ = false;
  const std::span<std::byte> all = memory_.bytes();
  for (std::size_t at = 0; at < all.size(); at += kWindowBytes)
    free_.push_back(all.subspan(at, kWindowBytes));
}

std::span<std::byte> Staging::take(std::deque<std::span<std::byte>>& from) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || !from.empty(); });
  if (stopped_) return {};
  const std::span<std::byte> window = from.front();
  from.pop_front();
  return window;
}

std::span<std::byte> Staging::take_free() {
  return take(free_);
}
std::span<std::byte> Staging::take_full() {
  return take(full_);
}

void Staging::put_full(std::span<std::byte> window) {
  {
    const std::lock_guard lock(mutex_);
    full_.push_back(window);
  }
  changed_.notify_all();
}

void Staging::put_free(std::span<std::byte> window) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(window);
  }
  changed_.notify_all();
}

void Staging::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

}  // namespace echelon::checkpoint
