#pragma once
#include <array>
#include <cstdint>

#include "image/image.h"

namespace echelon::data {

/// A rectangle of pixels inside an image.
struct Box {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
};

[[nodiscard]] Image crop(const Image& image, const Box& box);

/// Antialiased bilinear resampling, bit for bit as Pillow's resize(BILINEAR): a triangle as wide as the
/// shrinking, first along rows, then along columns, each rounded to 8 bits.
[[nodiscard]] Image resize(const Image& image, std::int64_t width, std::int64_t height);

void flip_horizontally(Image& image);

/// torchvision's Resize(shorter) and CenterCrop(size): the shorter side becomes `shorter` >= size pixels,
/// then the middle is cut out.
[[nodiscard]] Image center_view(const Image& image, std::int64_t shorter, std::int64_t size);

/// Part of an image for training as torchvision's RandomResizedCrop chooses it: of `area` of its pixels
/// (limits), 3:4 to 4:3, anywhere; ten tries, then the middle. The choice is a function of (key, sample).
[[nodiscard]] Box random_box(const Image& image, const std::array<double, 2>& area, std::uint64_t key,
                             std::uint64_t sample);

/// Returns whether the sample must be mirrored: half of them are.
[[nodiscard]] bool random_flip(std::uint64_t key, std::uint64_t sample);

}  // namespace echelon::data
