#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <string>

// It uses FILE and size_t without including them.
#include <jerror.h>
#include <jpeglib.h>

#include "base/not_copied.h"
#include "base/str.h"
#include "image/image_codec.h"

namespace echelon::data {
namespace {

/// More scans than any encoder writes. Each costs a pass over the whole picture, so a small hostile file
/// could take hours.
constexpr int kMostScans = 200;

/// libjpeg reports an error through a callback that must not return. The only way out is longjmp, so the
/// functions that call setjmp have no objects with destructors.
struct Failure {
  jpeg_error_mgr manager;  // first member, because libjpeg passes a pointer to it
  std::jmp_buf mark;
  std::array<char, JMSG_LENGTH_MAX> text;
};

void leave(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  failure->manager.format_message(info, failure->text.data());
  std::longjmp(failure->mark, 1);
}

/// After a warning libjpeg continues with invented pixels. Warnings about missing data are errors here; the
/// others (stray bytes between markers) leave the picture intact.
void warned(j_common_ptr info, int level) {
  if (level >= 0) return;
  ++info->err->num_warnings;
  static constexpr std::array kMissingData{JWRN_JPEG_EOF, JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE,
                                           JWRN_MUST_RESYNC};
  if (std::ranges::find(kMissingData, info->err->msg_code) != kMissingData.end()) leave(info);
}

void count_scans(j_common_ptr info) {
  auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
  if (decoder->input_scan_number <= kMostScans) return;
  auto* failure = reinterpret_cast<Failure*>(info->err);
  std::snprintf(failure->text.data(), failure->text.size(), "more than %d scans", kMostScans);
  std::longjmp(failure->mark, 1);
}

class JpegDecoder : NotCopied {
 public:
  JpegDecoder() {
    info_.err = ::jpeg_std_error(&failure_.manager);
    failure_.manager.error_exit = leave;
    failure_.manager.emit_message = warned;
    progress_.progress_monitor = count_scans;
  }
  ~JpegDecoder() { ::jpeg_destroy_decompress(&info_); }

  /// False: error_text() tells why.
  bool read_header(std::span<const std::uint8_t> bytes) {
    if (setjmp(failure_.mark) != 0) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    ::jpeg_mem_src(&info_, bytes.data(), bytes.size());
    ::jpeg_read_header(&info_, TRUE);
    if (info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK) {
      info_.out_color_space = JCS_CMYK;
    } else {
      info_.out_color_space = info_.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    }
    ::jpeg_calc_output_dimensions(&info_);
    return true;
  }

  /// Rows of width() x channels() bytes into `pixels`.
  bool read_pixels(std::uint8_t* pixels) {
    if (setjmp(failure_.mark) != 0) return false;
    ::jpeg_start_decompress(&info_);
    const std::size_t row_bytes = std::size_t{width()} * channels();
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels + info_.output_scanline * row_bytes;
      ::jpeg_read_scanlines(&info_, &row, 1);
    }
    ::jpeg_finish_decompress(&info_);
    return true;
  }

  [[nodiscard]] unsigned width() const { return info_.output_width; }
  [[nodiscard]] unsigned height() const { return info_.output_height; }
  [[nodiscard]] unsigned channels() const { return static_cast<unsigned>(info_.output_components); }
  [[nodiscard]] std::string error_text() const { return printable(failure_.text.data(), 120); }

 private:
  Failure failure_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
};

/// Inks as Adobe writes them: 255 is none.
Image without_inks(const Image& inks) {
  Image image{inks.width, inks.height, 3, {}};
  image.pixels.reserve(inks.pixels.size() / 4 * 3);
  for (std::size_t at = 0; at + 3 < inks.pixels.size(); at += 4) {
    const unsigned light = inks.pixels[at + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      const unsigned product = (255U - inks.pixels[at + c]) * light + 128U;
      const unsigned taken = ((product >> 8) + product) >> 8;  // of product / 255, rounded
      image.pixels.push_back(static_cast<std::uint8_t>(light - taken));
    }
  }
  return image;
}

}  // namespace

Image decode_jpeg(std::span<const std::uint8_t> bytes, std::string_view name, std::int64_t max_pixels) {
  JpegDecoder decoder;
  const auto fail = [&] { refuse_image(name, str("is a damaged JPEG file: ", decoder.error_text())); };
  if (!decoder.read_header(bytes)) fail();
  check_image_size(name, decoder.width(), decoder.height(), max_pixels);
  Image image{decoder.width(), decoder.height(), decoder.channels(), {}};
  image.pixels.resize(image.row_bytes() * decoder.height());
  if (!decoder.read_pixels(image.pixels.data())) fail();
  return image.channels == 4 ? without_inks(image) : image;
}

}  // namespace echelon::data
