#include "direct_file.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <cerrno>

#include "base/disk.h"
#include "base/str.h"

namespace echelon::tool {
namespace {

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
}

[[noreturn]] void fail(const char* doing, const fs::Path& path, int error) {
  throw Error(Code::kCheckpoint, str("cannot ", doing, " '", path.string(), "': ", fs::reason(error)));
}

}  // namespace

DirectFile::DirectFile(fs::Path path, std::uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {
  rlimit limit{};
  // Looked at first because running into the limit raises a signal that ends the process.
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      padded(bytes) > limit.rlim_cur) {
    throw Error(Code::kCheckpoint,
                str("cannot write '", path_.string(), "': it needs ", human_bytes(bytes),
                    ", this process may write files of ", human_bytes(limit.rlim_cur), " (ulimit -f)"));
  }
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW;
  fd_ = fs::Fd(fs::disk().open(path_.c_str(), kFlags | O_DIRECT, 0644));
  if (!fd_.valid()) {
    direct_ = false;
    fd_ = fs::open(path_, kFlags, Code::kCheckpoint);
  }
  reserve();
}

void DirectFile::reserve() {
  const auto size = static_cast<off_t>(padded(bytes_));
  if (size == 0) return;
  int error = 0;
  do {
    error = fs::disk().fallocate(fd_.get(), size) == 0 ? 0 : errno;
  } while (error == EINTR);
  // Not every file system can reserve (NFS 3); there the size is set and a full disk shows at a later write.
  if (error == EOPNOTSUPP || error == ENOSYS) error = fs::disk().ftruncate(fd_.get(), size) == 0 ? 0 : errno;
  if (error != 0) {
    throw Error(Code::kCheckpoint, str("cannot reserve ", human_bytes(bytes_), " for '", path_.string(),
                                       "': ", fs::reason(error)));
  }
}

void DirectFile::give_up_direct() {
  const std::lock_guard lock(giving_up_);
  if (!direct_) return;
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) != 0)
    fail("change the way of writing", path_, errno);
  direct_ = false;  // last, so that who sees it may rely on it
}

void DirectFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t begin = offset;
  const auto size = static_cast<off_t>(bytes.size());
  while (!bytes.empty()) {
    const bool was_direct = direct_;
    const ssize_t n = fs::disk().pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EINVAL && was_direct) {
      give_up_direct();
      continue;
    }
    if (n < 0) fail("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  // Only a hint, so its result does not matter: whether the bytes arrived is for finish() to say.
  if (!direct_) (void)::sync_file_range(fd_.get(), static_cast<off_t>(begin), size, SYNC_FILE_RANGE_WRITE);
}

void DirectFile::read(std::uint64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const bool was_direct = direct_;
    const ssize_t n = fs::disk().pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EINVAL && was_direct) {
      give_up_direct();
      continue;
    }
    if (n < 0) fail("read", path_, errno);
    if (n == 0) fail("read", path_, EIO);  // it was reserved to its full size
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void DirectFile::finish() {
  if (fs::disk().ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0) fail("set the size of", path_, errno);
  fs::fsync(fd_, Code::kCheckpoint, path_);
  fd_.close(Code::kCheckpoint, path_);
}

}  // namespace echelon::tool
