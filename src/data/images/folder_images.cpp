#include "data/images/folder_images.h"

#include <algorithm>
#include <array>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/str.h"
#include "image/image_codec.h"
#include "image/image_transform.h"

namespace echelon::data {
namespace {

/// The shorter side is scaled to the model's size, so the longer one could become a hundred times that:
/// such images are refused.
constexpr std::int64_t kLongest = 100;

void check_ratio(const Image& image, std::string_view name) {
  const auto [least, most] = std::minmax(image.width, image.height);
  if (most / least <= kLongest) return;
  refuse_image(name, str("has ", image.width, " x ", image.height, " pixels; an image more than ", kLongest,
                         " times as long as wide is not accepted"));
}

/// Rows of pixels to planes of channels.
void write_planes(const Image& image, std::span<std::uint8_t> planes) {
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t plane = image.pixels.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t i = 0; i < plane; ++i) planes[c * plane + i] = image.pixels[i * channels + c];
  }
}

std::uint32_t identity(const ImageFolder& list) {
  std::uint32_t crc = 0;
  for (const ImageFolder::File& file : list.files) {
    const std::array<std::int64_t, 1> label{file.label};
    crc = crc32c(std::as_bytes(std::span(label)), crc32c(file.path, crc));
  }
  return crc;
}

}  // namespace

FolderImages::FolderImages(const std::filesystem::path& folder, const DataOptions& options,
                           const ImageShape& shape, std::optional<std::uint64_t> training_seed)
    : folder_(folder),
      options_(options),
      shape_(shape),
      list_(list_image_folder(folder)),
      fingerprint_(identity(list_)) {
  if (training_seed) key_ = stream_key(*training_seed, "image views");
  if (options_.image.resize == 0) options_.image.resize = shape.size;
  check_listing();
}

void FolderImages::check_listing() const {
  if (shape_.channels != 1 && shape_.channels != 3) {
    throw Error(Code::kData,
                "data.kind: image_folder reads images of 1 or 3 channels, but model.channels is ",
                shape_.channels);
  }
  const auto classes = static_cast<std::int64_t>(list_.classes.size());
  if (classes > shape_.classes) {
    throw Error(Code::kData, "image folder '", folder_.string(), "' has ", classes,
                " subfolders, each a class, but model.classes is ", shape_.classes,
                ": set model.classes: ", classes);
  }
  if (list_.others.empty()) return;
  const std::string what = str("image folder '", folder_.string(), "' holds ", list_.others.size(),
                               " files that are not .jpg, .jpeg or .png in a class's folder, the first '",
                               printable(list_.others.front()), "'");
  if (!skips()) throw Error(Code::kData, what, ": remove them, or set data.on_bad_record: skip");
  log::warn(str(what, ": left out"));
}

Image FolderImages::view(const std::filesystem::path& path, std::uint64_t sample) const {
  const ImageOptions& how = options_.image;
  const Image whole = decode_image(path, shape_.channels, how.max_pixels);
  check_ratio(whole, path.string());
  Image image =
      key_ && how.crop == Crop::kRandom
          ? resize(crop(whole, random_box(whole, how.crop_area, *key_, sample)), shape_.size, shape_.size)
          : center_view(whole, how.resize, shape_.size);
  if (key_ && how.flip && random_flip(*key_, sample)) flip_horizontally(image);
  return image;
}

std::int64_t FolderImages::read(std::int64_t index, std::int64_t sample,
                                std::span<std::uint8_t> pixels) const {
  const ImageFolder::File& file = list_.files[static_cast<std::size_t>(index)];
  try {
    write_planes(view(folder_ / file.path, static_cast<std::uint64_t>(sample)), pixels);
    return file.label;
  } catch (const Error& error) {
    if (error.code() != Code::kData || error.is_of_system()) throw;  // the image may be whole
    if (!skips()) throw Error(Code::kData, error.what(), "; data.on_bad_record: skip continues without it");
    count_bad(index, error.what());
    return -1;
  }
}

void FolderImages::count_bad(std::int64_t index, const std::string& why) const {
  const Lock lock(bad_mutex_);
  if (!bad_.insert(index).second) return;
  if (std::ssize(bad_) > options_.max_bad_records) {
    throw Error(Code::kData, "more than data.max_bad_records (", options_.max_bad_records,
                ") image files cannot be used, the last: ", why);
  }
  log::warn(str(why, ": not counted (", bad_.size(), " of at most ", options_.max_bad_records, ")"));
}

}  // namespace echelon::data
