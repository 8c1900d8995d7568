#include "image/image_transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/philox.h"

namespace echelon::data {
namespace {

constexpr int kFractionBits = 22;  // as Pillow: 8 bits of pixel, 22 of weight, 2 spare
constexpr int kTries = 10;
constexpr double kLongestRatio = 4.0 / 3.0;
// Counters of a sample's draws: the tries of the box take four words each.
constexpr std::uint64_t kFlipDraw = kTries;

/// The weights of one output pixel along one axis: input pixels [first, first + weights.size()).
struct Taps {
  std::int64_t first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Taps> taps_of(std::int64_t input, std::int64_t output) {
  // Same formulas and order of operations as precompute_coeffs() in Pillow's Resample.c, so that results
  // are equal to the bit.
  const double scale = static_cast<double>(input) / static_cast<double>(output);
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<std::size_t>(output));
  std::vector<double> weights;
  for (std::int64_t i = 0; i < output; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(center - reach + 0.5), 0);
    const auto end = std::min(static_cast<std::int64_t>(center + reach + 0.5), input);
    double sum = 0;
    weights.clear();
    for (std::int64_t x = first; x < end; ++x) {
      const double distance = std::abs((static_cast<double>(x) - center + 0.5) * (1.0 / reach));
      weights.push_back(distance < 1.0 ? 1.0 - distance : 0.0);
      sum += weights.back();
    }
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = first;
    for (const double weight : weights)
      taps.weights.push_back(static_cast<std::int32_t>(0.5 + weight / sum * (1 << kFractionBits)));
  }
  return all;
}

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

Image resize_rows(const Image& image, std::int64_t width) {
  Image out{width, image.height, image.channels, {}};
  out.pixels.resize(out.row_bytes() * static_cast<std::size_t>(out.height));
  const std::vector<Taps> all = taps_of(image.width, width);
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::uint8_t* to = out.row(y);
    for (const Taps& taps : all) {
      for (std::int64_t c = 0; c < image.channels; ++c) {
        const std::uint8_t* from = image.row(y) + taps.first * image.channels + c;
        std::int32_t sum = kHalf;
        for (const std::int32_t weight : taps.weights) {
          sum += *from * weight;
          from += image.channels;
        }
        *to++ = rounded(sum);
      }
    }
  }
  return out;
}

Image resize_columns(const Image& image, std::int64_t height) {
  Image out{image.width, height, image.channels, {}};
  out.pixels.resize(out.row_bytes() * static_cast<std::size_t>(height));
  std::vector<std::int32_t> sums(out.row_bytes());
  std::int64_t y = 0;
  for (const Taps& taps : taps_of(image.height, height)) {
    std::ranges::fill(sums, kHalf);
    std::int64_t from = taps.first;
    for (const std::int32_t weight : taps.weights) {
      const std::uint8_t* row = image.row(from++);
      for (std::size_t x = 0; x < sums.size(); ++x) sums[x] += row[x] * weight;
    }
    std::ranges::transform(sums, out.row(y++), rounded);
  }
  return out;
}

/// Half of `space`, rounded half to even as Python's round(), which torchvision's CenterCrop uses.
std::int64_t middle(std::int64_t space) {
  const std::int64_t half = space / 2;
  return half + (space % 2 != 0 && half % 2 != 0 ? 1 : 0);
}

/// The largest centered box with an accepted aspect ratio: torchvision's fallback.
Box middle_box(const Image& image) {
  Box box{0, 0, image.width, image.height};
  const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
  if (ratio < 1 / kLongestRatio) {
    box.height = std::lround(static_cast<double>(box.width) * kLongestRatio);
  } else if (ratio > kLongestRatio) {
    box.width = std::lround(static_cast<double>(box.height) * kLongestRatio);
  }
  box.left = (image.width - box.width) / 2;
  box.top = (image.height - box.height) / 2;
  return box;
}

double uniform(std::uint32_t word) {
  return static_cast<double>(word) / 4294967296.0;
}

}  // namespace

Image crop(const Image& image, const Box& box) {
  Image out{box.width, box.height, image.channels, {}};
  out.pixels.resize(out.row_bytes() * static_cast<std::size_t>(out.height));
  for (std::int64_t y = 0; y < box.height; ++y)
    std::memcpy(out.row(y), image.row(box.top + y) + box.left * image.channels, out.row_bytes());
  return out;
}

Image resize(const Image& image, std::int64_t width, std::int64_t height) {
  if (width == image.width) return height == image.height ? image : resize_columns(image, height);
  const Image rows = resize_rows(image, width);
  return height == image.height ? rows : resize_columns(rows, height);
}

void flip_horizontally(Image& image) {
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::uint8_t* left = image.row(y);
    std::uint8_t* right = left + (image.width - 1) * image.channels;
    for (; left < right; left += image.channels, right -= image.channels)
      std::swap_ranges(left, left + image.channels, right);
  }
}

Image center_view(const Image& image, std::int64_t shorter, std::int64_t size) {
  const auto scaled = [&](std::int64_t side) {
    const std::int64_t least = std::min(image.width, image.height);
    return static_cast<std::int64_t>(static_cast<double>(shorter * side) / static_cast<double>(least));
  };
  const Image whole = resize(image, scaled(image.width), scaled(image.height));
  return crop(whole, {middle(whole.width - size), middle(whole.height - size), size, size});
}

Box random_box(const Image& image, const std::array<double, 2>& area, std::uint64_t key,
               std::uint64_t sample) {
  const auto pixels = static_cast<double>(image.width * image.height);
  for (std::uint64_t i = 0; i < kTries; ++i) {
    const auto words = philox4x32(key, i, sample);
    const double target = pixels * (area[0] + uniform(words[0]) * (area[1] - area[0]));
    // Uniform in the logarithm, so that 3:4 is as likely as 4:3.
    const double ratio = std::exp((2 * uniform(words[1]) - 1) * std::log(kLongestRatio));
    Box box;
    box.width = std::lround(std::sqrt(target * ratio));
    box.height = std::lround(std::sqrt(target / ratio));
    if (box.width < 1 || box.width > image.width || box.height < 1 || box.height > image.height) continue;
    const auto places = [](std::int64_t space, std::uint32_t word) {
      return static_cast<std::int64_t>(uniform(word) * static_cast<double>(space + 1));
    };
    box.left = places(image.width - box.width, words[2]);
    box.top = places(image.height - box.height, words[3]);
    return box;
  }
  return middle_box(image);
}

bool random_flip(std::uint64_t key, std::uint64_t sample) {
  return (philox4x32(key, kFlipDraw, sample)[0] & 1U) != 0;
}

}  // namespace echelon::data
