#include "data/gzip_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/fs.h"
#include "base/str.h"

namespace echelon::data {
namespace {

constexpr std::uint64_t kMostExpansion = 1032;
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // zlib counts in unsigned int

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& why) {
  throw Error(Code::kData, str("cannot read '", path.string(), "': ", why));
}

}  // namespace

GzipInput::GzipInput(std::filesystem::path path) : path_(std::move(path)) {
  const fs::Fd fd = fs::open(path_, O_RDONLY | O_NONBLOCK, Code::kData);  // a FIFO must not hold us
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail(path_, fs::reason(errno));
  if (!S_ISREG(info.st_mode)) throw Error(Code::kData, str("'", path_.string(), "' is not a regular file"));
  const int own = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
  if (own < 0) fail(path_, fs::reason(errno));
  file_.reset(::gzdopen(own, "rb"));
  if (file_ == nullptr) {
    ::close(own);
    fail(path_, "no memory to decompress it");
  }
  ::gzbuffer(file_.get(), 1U << 17);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  most_bytes_ = ::gzdirect(file_.get()) != 0 ? size : size * kMostExpansion;
}

std::size_t GzipInput::read(std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::size_t ask = std::min(bytes.size() - done, kMostAtOnce);
    const int got = ::gzread(file_.get(), bytes.data() + done, static_cast<unsigned>(ask));
    int code = Z_OK;
    const char* text = ::gzerror(file_.get(), &code);
    if (code == Z_BUF_ERROR) fail(path_, "the compressed data ends early; the file was cut short");
    if (code == Z_ERRNO) fail(path_, fs::reason(errno));
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      const std::string_view reason(text);
      const std::size_t after_path = reason.rfind(": ");  // zlib puts its own name of the file in front
      fail(
          path_,
          str("the compressed data is damaged (",
              printable(after_path == std::string_view::npos ? reason : reason.substr(after_path + 2)), ")"));
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace echelon::data
