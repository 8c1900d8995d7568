// Any bytes as an image file and as an idx file: each must end in success or in Error.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "data/images/idx_file.h"
#include "fuzz/refused.h"
#include "image/image_codec.h"

namespace {

constexpr std::int64_t kMaxPixels = 100'000;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int fd = ::memfd_create("image", 0);
  if (fd < 0) return 0;
  const bool written = ::write(fd, data, size) == static_cast<ssize_t>(size);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (written) {
    used_or_refused(echelon::Code::kData, [&] {
      const echelon::data::Image image = echelon::data::decode_image(path, 3, kMaxPixels);
      if (image.pixels.size() != static_cast<std::size_t>(image.width * image.height * 3)) __builtin_trap();
    });
    used_or_refused(echelon::Code::kData, [&] { (void)echelon::data::read_idx(path, 3); });
  }
  ::close(fd);
  return 0;
}
