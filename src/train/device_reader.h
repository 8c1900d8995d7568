#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace echelon {

/// Reads tensors of a device through two windows of page-locked host memory: while the caller copies from
/// one, the device fills the other. Memory is allocated at first use. Reads are ordered by the calling
/// thread's current stream. Not thread-safe.
class ReadWindows {
 public:
  explicit ReadWindows(std::int64_t bytes = std::int64_t{8} << 20) : bytes_(bytes) {}

  /// Copies bytes [at, at + to.size()) of `tensor`, which must be dense, to `to`. Blocks until done. Fast if
  /// successive calls read one tensor by rising `at`.
  void read(const at::Tensor& tensor, std::uint64_t at, std::span<std::byte> to);

 private:
  struct Window {
    at::Tensor host;
    std::optional<c10::Event> filled;  ///< none for tensors on the CPU, which are copied synchronously
    at::Tensor source;                 ///< the tensor it holds a piece of; undefined: none
    std::int64_t piece = 0;
  };
  [[nodiscard]] Window& window_of(std::int64_t piece) {
    return windows_[static_cast<std::size_t>(piece % 2)];
  }
  void begin(const at::Tensor& source, std::int64_t piece);

  std::int64_t bytes_;
  std::array<Window, 2> windows_;
};

}  // namespace echelon
