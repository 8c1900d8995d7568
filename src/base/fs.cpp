#include "base/fs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/str.h"

namespace echelon::fs {
namespace {

[[noreturn]] void fail(Code code, std::string_view doing, const Path& path, int error) {
  throw Error(code, str("cannot ", doing, " '", path.string(), "': ", reason(error)));
}

}  // namespace

std::string reason(int errno_value) {
  return std::generic_category().message(errno_value);
}

Fd& Fd::operator=(Fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

void Fd::close(Code code, const Path& path) {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0) fail(code, "close", path, errno);
}

Fd open(const Path& path, int flags, Code code, unsigned mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) fail(code, (flags & (O_WRONLY | O_RDWR)) != 0 ? "open for writing" : "open", path, errno);
  return Fd(fd);
}

void write_at(const Fd& fd, std::uint64_t offset, std::span<const std::byte> bytes, Code code,
              const Path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(code, "write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void read_at(const Fd& fd, std::uint64_t offset, std::span<std::byte> bytes, Code code, const Path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(code, "read", path, errno);
    if (n == 0) {
      throw Error(code, str("cannot read '", path.string(), "': file ends at byte ", offset, ", ",
                            bytes.size(), " bytes early; it was cut short"));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void fsync(const Fd& fd, Code code, const Path& path) {
  // Never retried: after a failed fsync the kernel may have dropped the dirty pages, so a second success
  // means nothing.
  if (::fsync(fd.get()) != 0) fail(code, "flush to disk", path, errno);
}

void fsync_directory(const Path& directory, Code code) {
  const Fd fd = open(directory, O_RDONLY | O_DIRECTORY, code);
  if (::fsync(fd.get()) != 0 && errno != EINVAL) fail(code, "flush folder", directory, errno);
}

std::string read_file(const Path& path, std::uint64_t max_bytes, Code code) {
  const Fd fd = open(path, O_RDONLY | O_NONBLOCK, code);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail(code, "stat", path, errno);
  if (!S_ISREG(info.st_mode)) throw Error(code, str("'", path.string(), "' is not a regular file"));
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > max_bytes) {
    throw Error(code,
                str("'", path.string(), "' has ", size, " bytes; at most ", max_bytes, " are accepted here"));
  }
  std::string text(size, '\0');
  read_at(fd, 0, std::as_writable_bytes(std::span(text)), code, path);
  return text;
}

void publish_file(const Path& path, std::string_view text, Code code) {
  const Path temporary = path.string() + ".tmp";
  {
    Fd fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, code);
    write_at(fd, 0, std::as_bytes(std::span(text)), code, temporary);
    fsync(fd, code, temporary);
    fd.close(code, temporary);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail(code, "rename into place", path, error);
  }
  fsync_directory(path.has_parent_path() ? path.parent_path() : Path("."), code);
}

void make_directories(const Path& path, Code code) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    std::error_code ignored;
    for (Path above = path; above.has_relative_path(); above = above.parent_path()) {
      if (std::filesystem::is_regular_file(above, ignored)) {
        throw Error(code,
                    str("cannot create folder '", path.string(), "': '", above.string(), "' is a file"));
      }
    }
    throw Error(code, str("cannot create folder '", path.string(), "': ", error.message()));
  }
  if (!std::filesystem::is_directory(path, error)) {
    throw Error(code, str("cannot create folder '", path.string(), "': a file of that name is in the way"));
  }
}

}  // namespace echelon::fs
