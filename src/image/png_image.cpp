#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/not_copied.h"
#include "base/str.h"
#include "image/image_codec.h"

namespace echelon::data {
namespace {

constexpr png_alloc_size_t kMostChunkBytes = 8'000'000;

/// State of libpng's callbacks. The error callback must not return to libpng: the only way out is longjmp,
/// so the functions that call setjmp have no objects with destructors.
struct State {
  std::span<const std::uint8_t> rest;
  std::jmp_buf mark;
  std::array<char, 120> text;
};

void leave(png_structp png, png_const_charp text) {
  auto* state = static_cast<State*>(::png_get_error_ptr(png));
  std::snprintf(state->text.data(), state->text.size(), "%s", text);
  std::longjmp(state->mark, 1);
}

void ignore_warning(png_structp /*png*/, png_const_charp /*text*/) {}

void take_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto* state = static_cast<State*>(::png_get_io_ptr(png));
  if (count > state->rest.size()) leave(png, "it ends early");
  std::memcpy(to, state->rest.data(), count);
  state->rest = state->rest.subspan(count);
}

class PngDecoder : NotCopied {
 public:
  explicit PngDecoder(std::span<const std::uint8_t> bytes) { state_.rest = bytes; }
  ~PngDecoder() { ::png_destroy_read_struct(&png_, &info_, nullptr); }

  /// False: error_text() tells why.
  bool read_header() {
    std::snprintf(state_.text.data(), state_.text.size(), "out of memory");
    if (setjmp(state_.mark) != 0) return false;
    png_ = ::png_create_read_struct(PNG_LIBPNG_VER_STRING, &state_, leave, ignore_warning);
    if (png_ == nullptr) return false;
    info_ = ::png_create_info_struct(png_);
    if (info_ == nullptr) return false;
    ::png_set_read_fn(png_, &state_, take_bytes);
    ::png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_image_size() says what to do
    ::png_set_chunk_malloc_max(png_, kMostChunkBytes);
    ::png_read_info(png_, info_);
    return true;
  }

  /// Gray or RGB of 8 bits, whatever the file holds.
  bool choose_output() {
    if (setjmp(state_.mark) != 0) return false;
    const png_byte type = ::png_get_color_type(png_, info_);
    if (type == PNG_COLOR_TYPE_PALETTE) ::png_set_palette_to_rgb(png_);
    if (type == PNG_COLOR_TYPE_GRAY && ::png_get_bit_depth(png_, info_) < 8)
      ::png_set_expand_gray_1_2_4_to_8(png_);
    ::png_set_strip_16(png_);
    ::png_set_strip_alpha(png_);
    ::png_set_interlace_handling(png_);
    ::png_read_update_info(png_, info_);
    return true;
  }

  bool read_pixels(png_bytepp rows) {
    if (setjmp(state_.mark) != 0) return false;
    ::png_read_image(png_, rows);
    ::png_read_end(png_, nullptr);
    return true;
  }

  [[nodiscard]] png_uint_32 width() const { return ::png_get_image_width(png_, info_); }
  [[nodiscard]] png_uint_32 height() const { return ::png_get_image_height(png_, info_); }
  [[nodiscard]] png_byte channels() const { return ::png_get_channels(png_, info_); }
  [[nodiscard]] std::size_t row_bytes() const { return ::png_get_rowbytes(png_, info_); }
  [[nodiscard]] std::string error_text() const { return printable(state_.text.data(), 120); }

 private:
  State state_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

Image decode_png(std::span<const std::uint8_t> bytes, std::string_view name, std::int64_t max_pixels) {
  PngDecoder decoder(bytes);
  const auto fail = [&] { refuse_image(name, str("is a damaged PNG file: ", decoder.error_text())); };
  if (!decoder.read_header()) fail();
  check_image_size(name, decoder.width(), decoder.height(), max_pixels);
  if (!decoder.choose_output()) fail();
  Image image{decoder.width(), decoder.height(), decoder.channels(), {}};
  if ((image.channels != 1 && image.channels != 3) || decoder.row_bytes() != image.row_bytes())
    refuse_image(name, "has an unsupported pixel layout");
  image.pixels.resize(image.row_bytes() * decoder.height());
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < image.height; ++y) rows.push_back(image.row(y));
  if (!decoder.read_pixels(rows.data())) fail();
  return image;
}

}  // namespace echelon::data
