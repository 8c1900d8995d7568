#pragma once
#include "data/image_source.h"

namespace echelon::data {

/// Images computed from (seed, index), for benchmarks and tests without files. There is something to learn:
/// each class has a pattern of waves of its own, of which a sample shows a noisy copy.
class SyntheticImages final : public ImageSource {
 public:
  SyntheticImages(const ImageShape& shape, std::uint64_t seed);

  [[nodiscard]] std::int64_t size() const override { return std::int64_t{1} << 40; }
  [[nodiscard]] std::uint32_t fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::int64_t read(std::int64_t index, std::int64_t sample,
                                  std::span<std::uint8_t> pixels) const override;

 private:
  ImageShape shape_;
  std::uint64_t pattern_key_;
  std::uint64_t noise_key_;
  std::uint32_t fingerprint_;
};

}  // namespace echelon::data
