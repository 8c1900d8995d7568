#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace echelon::checkpoint {

/// Memory for large transfers past the page cache: on huge pages where the system has them, because a device
/// takes a request in so many separate pieces only, and touched beforehand, so that its first use is as quick
/// as the others.
class BulkMemory {
 public:
  enum class Touch { kNow, kLater };
  /// With kLater only addresses are taken, and a page becomes memory when touch() or its user first writes to
  /// it. Throws std::bad_alloc.
  explicit BulkMemory(std::uint64_t bytes, Touch when = Touch::kNow);
  BulkMemory(const BulkMemory&) = delete;
  BulkMemory& operator=(const BulkMemory&) = delete;
  ~BulkMemory();

  /// Makes pages memory; their content is lost.
  static void touch(std::span<std::byte> pages);

  /// Begins on a border of 2 MiB.
  [[nodiscard]] std::span<std::byte> bytes() const { return {begin_, static_cast<std::size_t>(bytes_)}; }

 private:
  void* mapped_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
  std::byte* begin_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace echelon::checkpoint
