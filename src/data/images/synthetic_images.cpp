#include "data/images/synthetic_images.h"

#include <array>
#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "data/data_identity.h"

namespace echelon::data {
namespace {

/// One turn of a wave in 256 steps, 128 +- 80.
std::array<std::uint8_t, 256> make_wave() {
  std::array<std::uint8_t, 256> wave{};
  for (std::size_t i = 0; i < wave.size(); ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / 256.0;
    wave[i] = static_cast<std::uint8_t>(std::lround(128.0 + 80.0 * std::sin(angle)));
  }
  return wave;
}

/// 16 random bytes at a time out of one Philox call; each gives noise of -47 to 47.
class Noise {
 public:
  Noise(std::uint64_t key, std::uint64_t index) : key_(key), index_(index) {}
  int next() {
    if (at_ == 16) {
      words_ = philox4x32(key_, ++block_, index_);
      at_ = 0;
    }
    const std::uint32_t byte = words_[at_ / 4] >> (at_ % 4 * 8) & 255U;
    ++at_;
    return static_cast<int>(byte * 95 / 256) - 47;
  }

 private:
  std::uint64_t key_;
  std::uint64_t index_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t at_ = 16;
};

}  // namespace

SyntheticImages::SyntheticImages(const ImageShape& shape, std::uint64_t seed, std::int64_t held_out)
    : shape_(shape),
      size_(held_out > 0 ? held_out : std::int64_t{1} << 40),
      pattern_key_(stream_key(seed, "synthetic images, patterns")),
      noise_key_(stream_key(seed, held_out > 0 ? "synthetic images, held out" : "synthetic images, noise")) {
  fingerprint_ = data_identity(3, shape.channels, shape.size, shape.classes, seed);
}

std::int64_t SyntheticImages::read(std::int64_t index, std::int64_t /*sample*/,
                                   std::span<std::uint8_t> pixels) const {
  static const std::array<std::uint8_t, 256> kWave = make_wave();
  const auto number = static_cast<std::uint64_t>(index);
  const std::uint64_t label =
      philox4x32(noise_key_, 0, number)[0] % static_cast<std::uint64_t>(shape_.classes);
  Noise noise(noise_key_, number);
  std::size_t at = 0;
  for (std::int64_t channel = 0; channel < shape_.channels; ++channel) {
    const auto words = philox4x32(pattern_key_, static_cast<std::uint64_t>(channel), label);
    const auto waves = [&](std::uint32_t word) { return (static_cast<int>(word % 7) - 3) * 256; };
    const int across = waves(words[0]) / static_cast<int>(shape_.size);
    const int down = waves(words[1]) / static_cast<int>(shape_.size);
    for (int y = 0; y < shape_.size; ++y) {
      for (int x = 0; x < shape_.size; ++x) {
        const auto phase = static_cast<std::uint32_t>(across * x + down * y) + words[2];
        pixels[at++] = static_cast<std::uint8_t>(kWave[phase & 255U] + noise.next());
      }
    }
  }
  return static_cast<std::int64_t>(label);
}

}  // namespace echelon::data
