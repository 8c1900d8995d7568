#include "image/image_codec.h"

#include <string>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/str.h"

namespace echelon::data {
namespace {

constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 30;

/// ITU-R 601 luma in 16-bit fixed point.
Image to_gray(const Image& color) {
  Image gray{color.width, color.height, 1, {}};
  gray.pixels.resize(static_cast<std::size_t>(color.width * color.height));
  const std::uint8_t* from = color.pixels.data();
  for (std::uint8_t& to : gray.pixels) {
    to = static_cast<std::uint8_t>((from[0] * 19595U + from[1] * 38470U + from[2] * 7471U + 0x8000U) >> 16);
    from += 3;
  }
  return gray;
}

Image to_color(const Image& gray) {
  Image color{gray.width, gray.height, 3, {}};
  color.pixels.reserve(3 * gray.pixels.size());
  for (const std::uint8_t value : gray.pixels) color.pixels.insert(color.pixels.end(), 3, value);
  return color;
}

}  // namespace

void refuse_image(std::string_view name, std::string_view why) {
  throw Error(Code::kData, "image '", name, "' ", why);
}

void check_image_size(std::string_view name, std::uint64_t width, std::uint64_t height,
                      std::int64_t max_pixels) {
  if (width == 0 || height == 0) refuse_image(name, str("is of size zero (", width, " x ", height, ")"));
  if (height > static_cast<std::uint64_t>(max_pixels) / width) {
    refuse_image(name, str("has ", width, " x ", height, " pixels; at most ", max_pixels,
                           " are accepted: raise data.image.max_pixels if this size is intended"));
  }
}

Image decode_image(const std::filesystem::path& path, std::int64_t channels, std::int64_t max_pixels) {
  const std::string name = path.string();
  const std::string file = fs::read_file(path, kMostFileBytes, Code::kData);
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
  if (bytes.empty()) refuse_image(name, "is an empty file");
  Image image;
  if (file.starts_with("\xFF\xD8\xFF")) {
    image = decode_jpeg(bytes, name, max_pixels);
  } else if (file.starts_with("\x89PNG\r\n\x1A\n")) {
    image = decode_png(bytes, name, max_pixels);
  } else {
    refuse_image(name, str("is neither JPEG nor PNG: it starts with '",
                           printable(std::string_view(file).substr(0, 8)), "'"));
  }
  if (image.channels == channels) return image;
  return channels == 1 ? to_gray(image) : to_color(image);
}

}  // namespace echelon::data
