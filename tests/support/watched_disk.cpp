#include "support/watched_disk.h"

#include <fcntl.h>

#include "base/str.h"

namespace echelon::test {

std::vector<std::string> WatchedDisk::open_files() const {
  const std::lock_guard lock(mutex_);
  return mapped(open_, [](const auto& file) { return file.second; });
}

std::string WatchedDisk::path_of(int fd) const {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(fd);
  return found == open_.end() ? "" : found->second;
}

int WatchedDisk::watched(DiskRequest request, const std::function<ssize_t()>& make) {
  return static_cast<int>(watch_(request, make));
}

int WatchedDisk::open(const char* path, int flags, unsigned mode) {
  const DiskCall call = (flags & O_CREAT) != 0 ? DiskCall::kCreate : DiskCall::kOpen;
  return watched({.call = call, .path = path, .flags = flags}, [&] {
    const int fd = below_->open(path, flags, mode);
    if (fd >= 0) {
      const std::lock_guard lock(mutex_);
      open_[fd] = path;
    }
    return fd;
  });
}

int WatchedDisk::close(int fd) {
  DiskRequest request{.call = DiskCall::kClose, .path = path_of(fd), .fd = fd};
  {
    const std::lock_guard lock(mutex_);
    open_.erase(fd);
  }
  const int result = below_->close(fd);
  return watched(std::move(request), [&] { return result; });
}

ssize_t WatchedDisk::pread(int fd, void* to, std::size_t size, off_t offset) {
  DiskRequest request{.call = DiskCall::kRead,
                      .path = path_of(fd),
                      .fd = fd,
                      .offset = static_cast<std::uint64_t>(offset),
                      .size = size};
  return watch_(request, [&] { return below_->pread(fd, to, request.size, offset); });
}
ssize_t WatchedDisk::pwrite(int fd, const void* from, std::size_t size, off_t offset) {
  DiskRequest request{.call = DiskCall::kWrite,
                      .path = path_of(fd),
                      .fd = fd,
                      .offset = static_cast<std::uint64_t>(offset),
                      .size = size,
                      .bytes = static_cast<const std::byte*>(from)};
  return watch_(request, [&] { return below_->pwrite(fd, from, request.size, offset); });
}
int WatchedDisk::fsync(int fd) {
  return watched({.call = DiskCall::kFlush, .path = path_of(fd), .fd = fd},
                 [&] { return below_->fsync(fd); });
}
int WatchedDisk::fallocate(int fd, off_t size) {
  return watched(
      {.call = DiskCall::kReserve, .path = path_of(fd), .fd = fd, .size = static_cast<std::uint64_t>(size)},
      [&] { return below_->fallocate(fd, size); });
}
int WatchedDisk::ftruncate(int fd, off_t size) {
  return watched(
      {.call = DiskCall::kResize, .path = path_of(fd), .fd = fd, .size = static_cast<std::uint64_t>(size)},
      [&] { return below_->ftruncate(fd, size); });
}
int WatchedDisk::rename(const char* from, const char* to) {
  return watched({.call = DiskCall::kRename, .path = from, .to = to},
                 [&] { return below_->rename(from, to); });
}
int WatchedDisk::rename_new(const char* from, const char* to) {
  return watched({.call = DiskCall::kRename, .path = from, .to = to},
                 [&] { return below_->rename_new(from, to); });
}
int WatchedDisk::link(const char* from, const char* to) {
  return watched({.call = DiskCall::kLink, .path = from, .to = to}, [&] { return below_->link(from, to); });
}
int WatchedDisk::unlink(const char* path) {
  return watched({.call = DiskCall::kUnlink, .path = path}, [&] { return below_->unlink(path); });
}
int WatchedDisk::mkdir(const char* path, unsigned mode) {
  return watched({.call = DiskCall::kMkdir, .path = path}, [&] { return below_->mkdir(path, mode); });
}
int WatchedDisk::rmdir(const char* path) {
  return watched({.call = DiskCall::kRmdir, .path = path}, [&] { return below_->rmdir(path); });
}
int WatchedDisk::fstat(int fd, struct stat* info) {
  return watched({.call = DiskCall::kStat, .path = path_of(fd), .fd = fd},
                 [&] { return below_->fstat(fd, info); });
}
int WatchedDisk::lstat(const char* path, struct stat* info) {
  return watched({.call = DiskCall::kStat, .path = path}, [&] { return below_->lstat(path, info); });
}
int WatchedDisk::list(const char* path, std::vector<std::string>& names) {
  return watched({.call = DiskCall::kList, .path = path}, [&] { return below_->list(path, names); });
}

}  // namespace echelon::test
