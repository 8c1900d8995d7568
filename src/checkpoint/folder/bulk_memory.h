#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/not_copied.h"

namespace echelon::checkpoint {

/// Memory for large O_DIRECT transfers. It uses huge pages where the system has them, because a device
/// accepts only a limited number of separate pieces per request. It is touched in advance, so that its first
/// use is as fast as later ones.
class BulkMemory : NotCopied {
 public:
  enum class Touch { kNow, kLater };
  /// With kLater only address space is reserved; a page is allocated when touch() or its user first writes to
  /// it. Throws std::bad_alloc.
  explicit BulkMemory(std::uint64_t bytes, Touch when = Touch::kNow);
  ~BulkMemory();

  /// Allocates the pages; their content is lost.
  static void touch(std::span<std::byte> pages);

  /// Aligned to 2 MiB.
  [[nodiscard]] std::span<std::byte> bytes() const { return {begin_, static_cast<std::size_t>(bytes_)}; }

 private:
  void* mapped_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
  std::byte* begin_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace echelon::checkpoint
