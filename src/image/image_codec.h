#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "image/image.h"

namespace echelon::data {

/// Decodes a JPEG or PNG file; its first bytes decide which, not its name. Whatever it holds (gray, palette,
/// 16 bits, transparency, CMYK), the result has the given `channels`, 1 or 3, as Pillow's
/// convert("L" or "RGB") makes them: alpha is dropped, 16 bits keep the upper 8, gray is 0.299 red + 0.587
/// green + 0.114 blue. Orientation marks and color profiles are not applied. Throws Error(kData):
/// unreadable, empty, neither format, cut short, damaged, width x height above `max_pixels` (compared before
/// memory is taken). Thread-safe.
[[nodiscard]] Image decode_image(const std::filesystem::path& path, std::int64_t channels,
                                 std::int64_t max_pixels);

// The two formats, each in a file of its own: gray stays gray, all else becomes RGB. `name` is for messages.
[[nodiscard]] Image decode_jpeg(std::span<const std::uint8_t> bytes, std::string_view name,
                                std::int64_t max_pixels);
[[nodiscard]] Image decode_png(std::span<const std::uint8_t> bytes, std::string_view name,
                               std::int64_t max_pixels);

/// Error(kData) "image 'name' <why>".
[[noreturn]] void refuse_image(std::string_view name, std::string_view why);

/// Refuses an image without pixels or with too many.
void check_image_size(std::string_view name, std::uint64_t width, std::uint64_t height,
                      std::int64_t max_pixels);

}  // namespace echelon::data
