#include "data/images/idx_images.h"

#include <algorithm>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/str.h"

namespace echelon::data {
namespace {

void check_shape(const std::filesystem::path& path, const IdxFile& images, const ImageShape& shape) {
  if (shape.channels != 1) {
    throw Error(Code::kData, "idx file '", path.string(), "' holds grey images, but model.channels is ",
                shape.channels, ": set model.channels: 1");
  }
  const auto& sizes = images.dimensions;
  if (sizes[1] != shape.size || sizes[2] != shape.size) {
    throw Error(Code::kData, "idx file '", path.string(), "' holds images of ", sizes[2], " x ", sizes[1],
                " pixels, but model.image_size is ", shape.size,
                sizes[1] == sizes[2] ? str(": set model.image_size: ", sizes[1])
                                     : std::string(": square images are needed"));
  }
}

void check_labels(const std::filesystem::path& path, const IdxFile& labels, std::int64_t images,
                  std::int64_t classes) {
  if (labels.dimensions[0] != images) {
    throw Error(Code::kData, "idx file '", path.string(), "' holds ", labels.dimensions[0], " labels for ",
                images, " images: they belong to another images file");
  }
  const auto wrong =
      std::ranges::find_if(labels.values, [&](std::uint8_t label) { return label >= classes; });
  if (wrong == labels.values.end()) return;
  throw Error(Code::kData, "idx file '", path.string(), "' has label ", int{*wrong}, " at image ",
              wrong - labels.values.begin(), ", but model.classes is ", classes, ": labels must be below it");
}

}  // namespace

IdxImages::IdxImages(const std::filesystem::path& images, std::filesystem::path labels,
                     const ImageShape& shape)
    : images_(read_idx(images, 3)) {
  check_shape(images, images_, shape);
  if (labels.empty()) labels = find_labels(images);
  labels_ = read_idx(labels, 1);
  check_labels(labels, labels_, size(), shape.classes);
  fingerprint_ =
      crc32c(std::as_bytes(std::span(labels_.values)), crc32c(std::as_bytes(std::span(images_.values))));
}

std::int64_t IdxImages::read(std::int64_t index, std::int64_t /*sample*/,
                             std::span<std::uint8_t> pixels) const {
  const auto begin = images_.values.begin() + index * static_cast<std::int64_t>(pixels.size());
  std::copy_n(begin, pixels.size(), pixels.begin());
  return labels_.values[static_cast<std::size_t>(index)];
}

}  // namespace echelon::data
