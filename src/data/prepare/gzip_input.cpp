#include "data/prepare/gzip_input.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/str.h"

namespace echelon::data {
namespace {

constexpr std::uint64_t kMostExpansion = 1032;
constexpr std::array<std::byte, 2> kMagic{std::byte{0x1F}, std::byte{0x8B}};

}  // namespace

GzipInput::File GzipInput::look_at(const std::filesystem::path& path) {
  const fs::Fd fd = fs::open(path, O_RDONLY | O_NONBLOCK, Code::kData);  // opening a FIFO must not block
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw fs::system_error(Code::kData, "stat", path, errno);
  if (!S_ISREG(info.st_mode)) throw Error(Code::kData, str("'", path.string(), "' is not a regular file"));
  File file;
  file.source.path = path;
  file.source.bytes = static_cast<std::uint64_t>(info.st_size);
  if (file.source.bytes < kMagic.size()) return file;
  std::array<std::byte, kMagic.size()> first{};
  fs::read_at(fd, 0, first, Code::kData, path);
  if (first == kMagic) file.packing = Packing::kGzip;
  return file;
}

GzipInput::GzipInput(const std::filesystem::path& path) : GzipInput(look_at(path)) {}

GzipInput::GzipInput(const File& file)
    : stream_(file.source, file.packing),
      most_bytes_(file.packing == Packing::kGzip ? file.source.bytes * kMostExpansion : file.source.bytes) {}

std::size_t GzipInput::read(std::span<std::byte> bytes) {
  return stream_.read({reinterpret_cast<char*>(bytes.data()), bytes.size()});
}

}  // namespace echelon::data
