#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echelon::data {

/// 8-bit pixels, rows from top to bottom, the channels of a pixel side by side.
struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t channels = 0;  ///< 1: gray, 3: red, green, blue
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] std::size_t row_bytes() const { return static_cast<std::size_t>(width * channels); }
  [[nodiscard]] const std::uint8_t* row(std::int64_t y) const {
    return pixels.data() + static_cast<std::size_t>(y) * row_bytes();
  }
  [[nodiscard]] std::uint8_t* row(std::int64_t y) {
    return pixels.data() + static_cast<std::size_t>(y) * row_bytes();
  }
};

}  // namespace echelon::data
