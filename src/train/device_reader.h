#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace echelon {

/// Two pieces of page-locked host memory through which tensors of a device are read, one after the other:
/// while one is used the device fills the other. The memory is taken at the first use. Not thread-safe; reads
/// in the order of the calling thread's current stream.
class ReadWindows {
 public:
  explicit ReadWindows(std::int64_t bytes = std::int64_t{8} << 20) : bytes_(bytes) {}

  /// Fills `to` with the tensor's bytes from byte `at` on. `tensor`: dense. Quick where calls for a tensor
  /// follow one another with rising `at`.
  void read(const at::Tensor& tensor, std::uint64_t at, std::span<std::byte> to);

 private:
  struct Window {
    at::Tensor host;
    std::optional<c10::Event> filled;  ///< none where the host copies by itself
    at::Tensor source;                 ///< whose piece it holds; undefined: nobody's
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
