#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>

#include "checkpoint/bulk_memory.h"

namespace echelon::checkpoint {

/// Memory between the trainer's state and the disk: windows of kWindowBytes that one thread fills and another
/// writes, in order. Kept from save to save, because memory touched for the first time is slow. Large enough
/// for a whole shard it lets training go on after one copy; of two windows it is a plain pipe.
class Staging {
 public:
  static constexpr std::size_t kWindowBytes = std::size_t{8} << 20;

  /// `bytes`: rounded up to whole windows, two at least. Throws Error(kCheckpoint) when there is no memory.
  explicit Staging(std::uint64_t bytes);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  [[nodiscard]] std::uint64_t bytes() const { return memory_.bytes().size(); }

  /// Filling thread: the next window, page-aligned; waits for one to become free. Empty when stopped.
  [[nodiscard]] std::span<std::byte> take_free();
  /// Filling thread: the window is full; its size may be less than the whole window.
  void put_full(std::span<std::byte> window);
  /// Writing thread: the oldest full window; waits for one. Empty when stopped.
  [[nodiscard]] std::span<std::byte> take_full();
  /// Writing thread: the window may be filled again.
  void put_free(std::span<std::byte> window);

  /// Either thread: there is nothing more to do for the other one; wakes it.
  void stop();
  /// Before another save, when no thread uses it: all windows are free again.
  void reset();

 private:
  std::span<std::byte> take(std::deque<std::span<std::byte>>& from);

  BulkMemory memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::span<std::byte>> free_;
  std::deque<std::span<std::byte>> full_;
  bool stopped_ = false;
};

}  // namespace echelon::checkpoint
