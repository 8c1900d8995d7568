#pragma once
#include "data/images/image_source.h"

namespace echelon::data {

/// Images computed from (seed, index), for benchmarks and tests without files. There is something to learn:
/// each class has its own pattern of waves, and a sample is a noisy copy of it.
class SyntheticImages final : public ImageSource {
 public:
  /// `held_out`: 0 for the images that are trained on; else so many others of the same classes.
  SyntheticImages(const ImageShape& shape, std::uint64_t seed, std::int64_t held_out = 0);

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::uint32_t fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::int64_t read(std::int64_t index, std::int64_t sample,
                                  std::span<std::uint8_t> pixels) const override;

 private:
  ImageShape shape_;
  std::int64_t size_;
  std::uint64_t pattern_key_;
  std::uint64_t noise_key_;
  std::uint32_t fingerprint_;
};

}  // namespace echelon::data
