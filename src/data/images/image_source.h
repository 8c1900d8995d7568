#pragma once
#include <cstdint>
#include <span>

namespace echelon::data {

/// The images that the model expects.
struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t size = 0;  ///< width and height, pixels
  std::int64_t classes = 0;

  [[nodiscard]] std::int64_t numel() const { return channels * size * size; }
};

/// Labeled images of one shape. Thread-safe: any number of threads read at once.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;

  /// CRC of what identifies the images: it goes into the checkpoint.
  [[nodiscard]] virtual std::uint32_t fingerprint() const = 0;

  /// Writes image `index` as [channels, height, width] and returns its label. Random choices (crop, flip)
  /// depend on `sample`, the global sample number, and the run's seed alone. -1: the image cannot be used and
  /// is not counted; `pixels` are then undefined. Throws Error(kData).
  [[nodiscard]] virtual std::int64_t read(std::int64_t index, std::int64_t sample,
                                          std::span<std::uint8_t> pixels) const = 0;
};

}  // namespace echelon::data
