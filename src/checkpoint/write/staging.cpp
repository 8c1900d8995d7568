#include "checkpoint/write/staging.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>

#include "base/error.h"
#include "base/str.h"

namespace echelon::checkpoint {

namespace {

BulkMemory take_memory(std::uint64_t bytes) {
  try {
    return BulkMemory(bytes, BulkMemory::Touch::kLater);
  } catch (const std::bad_alloc&) {
    throw Error(Code::kCheckpoint, "cannot allocate ", human_bytes(bytes),
                " of memory for a copy of the state; set ", "checkpoint.async to false, which needs no copy");
  }
}

}  // namespace

Staging::Staging(std::uint64_t bytes)
    : memory_(
          take_memory(std::max<std::uint64_t>(2, (bytes + kWindowBytes - 1) / kWindowBytes) * kWindowBytes)) {
  reset();
}

std::span<std::byte> Staging::window(std::size_t number) const {
  return memory_.bytes().subspan(number * kWindowBytes, kWindowBytes);
}

std::uint64_t Staging::touched_bytes() const {
  const Lock lock(mutex_);
  return taken_ * kWindowBytes;
}

void Staging::warm_up() {
  if (warming_.joinable()) return;
  try {
    warming_ = std::jthread([this](const std::stop_token& stop) { touch_all(stop); });
  } catch (const std::system_error&) {  // no thread available: the first save touches the pages as it copies
  }
}

void Staging::touch_all(const std::stop_token& stop) noexcept {
  while (!stop.stop_requested()) {
    std::span<std::byte> next;
    {
      const Lock lock(mutex_);
      if (taken_ * kWindowBytes == bytes()) return;
      next = window(taken_++);
      touching_ = true;
    }
    // Without the lock: touching 8 MiB takes milliseconds, and a save may run at the same time.
    BulkMemory::touch(next);
    {
      const Lock lock(mutex_);
      touching_ = false;
      try {
        // A save that uses the memory as a pipe must not get more windows than it asked for.
        if (taken_ <= windows_) free_.push_back(next);
      } catch (const std::bad_alloc&) {  // the next reset() adds it
      }
    }
    changed_.notify_all();
  }
}

void Staging::reset(std::size_t windows) {
  Lock lock(mutex_);
  changed_.wait(lock, [&]() ECHELON_REQUIRES(mutex_) { return !touching_; });
  full_.clear();
  free_.clear();
  stopped_ = false;
  windows_ = std::min(windows, static_cast<std::size_t>(bytes() / kWindowBytes));
  for (std::size_t i = 0; i < std::min(windows_, taken_); ++i) free_.push_back(window(i));
}

std::span<std::byte> Staging::take_free(const std::function<double()>& left_s) {
  constexpr double kSlice_s = 3600;  // a clock cannot wait for infinity
  Lock lock(mutex_);
  while (!stopped_ && free_.empty() && taken_ >= windows_) {
    const double wait_s = std::min(left_s(), kSlice_s);
    if (wait_s <= 0) return {};
    changed_.wait_for(lock, std::chrono::duration<double>(wait_s));
  }
  if (stopped_) return {};
  if (free_.empty()) return window(taken_++);  // its pages are touched as it is filled
  const std::span<std::byte> next = free_.front();
  free_.pop_front();
  return next;
}

std::span<std::byte> Staging::take_full() {
  Lock lock(mutex_);
  changed_.wait(lock, [&]() ECHELON_REQUIRES(mutex_) { return stopped_ || !full_.empty(); });
  if (stopped_) return {};
  const std::span<std::byte> next = full_.front();
  full_.pop_front();
  return next;
}

void Staging::put_full(std::span<std::byte> window) {
  const Lock lock(mutex_);
  full_.push_back(window);
  changed_.notify_all();
}

void Staging::put_free(std::span<std::byte> window) {
  const Lock lock(mutex_);
  free_.push_back(window);
  changed_.notify_all();
}

void Staging::stop() {
  const Lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

}  // namespace echelon::checkpoint
