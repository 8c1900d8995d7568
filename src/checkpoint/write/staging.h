#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <stop_token>
#include <thread>

#include "base/mutex.h"
#include "base/not_copied.h"
#include "checkpoint/folder/bulk_memory.h"

namespace echelon::checkpoint {

/// Memory between the trainer's state and the disk: windows of kWindowBytes that one thread fills and another
/// writes, in order. Kept from save to save, because the first touch of memory is slow. If it holds a whole
/// shard, training goes on after one copy; with a few windows it is a pipe. A window is only address space
/// until its first use, or until warm_up() touches it.
class Staging : NotCopied {
 public:
  static constexpr std::size_t kWindowBytes = std::size_t{8} << 20;
  static constexpr std::size_t kPipeWindows = 4;

  /// `bytes`: rounded up to whole windows, two at least. Throws Error(kCheckpoint) when they cannot be had.
  explicit Staging(std::uint64_t bytes);

  [[nodiscard]] std::uint64_t bytes() const { return memory_.bytes().size(); }
  /// How much of it is allocated, or is being allocated.
  [[nodiscard]] std::uint64_t touched_bytes() const;

  /// Starts to touch all of it on a separate thread, also while a save runs. Returns at once; further calls
  /// do nothing.
  void warm_up();

  /// Filling thread: the next window, page-aligned; waits for one to become free as long as `left_s()`, the
  /// seconds that are left, is above 0. Empty when stopped, or too late.
  [[nodiscard]] std::span<std::byte> take_free(const std::function<double()>& left_s);
  /// Filling thread: the window is full; its size may be less than the whole window.
  void put_full(std::span<std::byte> window);
  /// Writing thread: the oldest full window; waits for one. Empty when stopped.
  [[nodiscard]] std::span<std::byte> take_full();
  /// Writing thread: the window may be filled again.
  void put_free(std::span<std::byte> window);

  /// Either thread: tells the other one that there is nothing more to do, and wakes it.
  void stop();
  /// Before another save, when no thread uses it: all windows are free again. `windows`: at most this many
  /// are used, so that a save that training waits for anyway needs no more memory than a pipe.
  void reset(std::size_t windows = ~std::size_t{0});

 private:
  [[nodiscard]] std::span<std::byte> window(std::size_t number) const;
  void touch_all(const std::stop_token& stop) noexcept;

  BulkMemory memory_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::span<std::byte>> free_ ECHELON_GUARDED_BY(mutex_);
  std::deque<std::span<std::byte>> full_ ECHELON_GUARDED_BY(mutex_);
  std::size_t windows_ ECHELON_GUARDED_BY(mutex_) = 0;  ///< of this save
  std::size_t taken_ ECHELON_GUARDED_BY(mutex_) =
      0;  ///< number of windows, from the first, that are allocated or being allocated
  bool touching_ ECHELON_GUARDED_BY(mutex_) = false;  ///< the warming thread is working on the last of these
  bool stopped_ ECHELON_GUARDED_BY(mutex_) = false;
  std::jthread warming_;  ///< last: it uses the others
};

}  // namespace echelon::checkpoint
