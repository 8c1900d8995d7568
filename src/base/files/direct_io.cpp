#include "base/files/direct_io.h"

#include <fcntl.h>

#include <cerrno>

#include "base/files/disk.h"

namespace echelon::fs {

DirectIo::DirectIo(Path path, int access, Code code)
    : path_(std::move(path)),
      code_(code),
      fd_(disk().open(path_.c_str(), access | O_DIRECT | O_NOFOLLOW, 0)),
      accepted_(fd_.valid()) {}

std::size_t DirectIo::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::size_t whole = bytes.size() / kDirectAlignment * kDirectAlignment;
  std::size_t done = 0;
  while (accepted_ && done < whole) {
    const ssize_t n =
        disk().pwrite(fd_.get(), bytes.data() + done, whole - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EINVAL) throw Error(code_, "cannot write '", path_.string(), "': ", reason(errno));
    done += n < 0 ? 0 : static_cast<std::size_t>(n);
    // A file system may accept O_DIRECT and refuse the write (EINVAL), or stop at an unaligned place: the
    // rest is written through the page cache.
    if (n <= 0 || done % kDirectAlignment != 0) accepted_ = false;
  }
  return done;
}

std::size_t DirectIo::read(std::uint64_t offset, std::span<std::byte> bytes) {
  const std::size_t whole = bytes.size() / kDirectAlignment * kDirectAlignment;
  std::size_t done = 0;
  while (accepted_ && done < whole && done % kDirectAlignment == 0) {
    const ssize_t n =
        disk().pread(fd_.get(), bytes.data() + done, whole - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EINVAL) accepted_ = false;
    if (n <= 0) break;  // refused, or the end: the caller's normal read reports it
    done += static_cast<std::size_t>(n);
  }
  return done;
}

void DirectIo::close() {
  fd_.close(code_, path_);
}

}  // namespace echelon::fs
