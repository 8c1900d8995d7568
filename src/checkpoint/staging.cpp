#include "checkpoint/staging.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/fs.h"
#include "base/str.h"

namespace echelon::checkpoint {

Staging::Staging(std::uint64_t bytes)
    : bytes_(std::max<std::uint64_t>(2, (bytes + kWindowBytes - 1) / kWindowBytes) * kWindowBytes) {
  // Populated at once: the first save must not pay for touching the memory.
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(Code::kCheckpoint,
                str("cannot get ", human_bytes(bytes_),
                    " of memory to copy the state to before it is written: ", fs::reason(errno),
                    "; set checkpoint.async to false, which needs none"));
  }
  memory_ = static_cast<std::byte*>(memory);
  reset();
}

Staging::~Staging() {
  ::munmap(memory_, bytes_);
}

void Staging::reset() {
  full_.clear();
  free_.clear();
  stopped_ = false;
  for (std::uint64_t at = 0; at < bytes_; at += kWindowBytes) free_.emplace_back(memory_ + at, kWindowBytes);
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
