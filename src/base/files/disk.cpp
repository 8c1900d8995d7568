#include "base/files/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "base/files/pinned.h"

namespace echelon::fs {
namespace {

// One per process, like the file systems behind it: passing it to every function would not make two of them
// independent.
std::atomic<Disk*>& in_use() {
  static Disk real;
  static std::atomic<Disk*> current{&real};
  return current;
}

std::atomic<std::uint64_t> read_so_far{0};

}  // namespace

int Disk::open(const char* path, int flags, unsigned mode) {
  const Place at(path);
  return ::openat(at.from, at.path, flags | O_CLOEXEC, mode & at.modes);
}
int Disk::close(int fd) {
  return ::close(fd);
}
ssize_t Disk::pread(int fd, void* to, std::size_t size, off_t offset) {
  const ssize_t n = ::pread(fd, to, size, offset);
  if (n > 0) read_so_far += static_cast<std::uint64_t>(n);
  return n;
}
ssize_t Disk::pwrite(int fd, const void* from, std::size_t size, off_t offset) {
  return ::pwrite(fd, from, size, offset);
}
int Disk::fsync(int fd) {
  return ::fsync(fd);
}
int Disk::fallocate(int fd, off_t size) {
  return ::fallocate(fd, 0, 0, size);
}
int Disk::ftruncate(int fd, off_t size) {
  return ::ftruncate(fd, size);
}
int Disk::rename(const char* from, const char* to) {
  const Place old(from);
  const Place next(to);
  return ::renameat(old.from, old.path, next.from, next.path);
}
int Disk::rename_new(const char* from, const char* to) {
  const Place old(from);
  const Place next(to);
  return ::renameat2(old.from, old.path, next.from, next.path, RENAME_NOREPLACE);
}
int Disk::link(const char* from, const char* to) {
  const Place old(from);
  const Place next(to);
  return ::linkat(old.from, old.path, next.from, next.path, 0);
}
int Disk::unlink(const char* path) {
  const Place at(path);
  return ::unlinkat(at.from, at.path, 0);
}
int Disk::mkdir(const char* path, unsigned mode) {
  const Place at(path);
  return ::mkdirat(at.from, at.path, mode & at.modes);
}
int Disk::rmdir(const char* path) {
  const Place at(path);
  return ::unlinkat(at.from, at.path, AT_REMOVEDIR);
}
int Disk::fstat(int fd, struct stat* info) {
  return ::fstat(fd, info);
}
int Disk::lstat(const char* path, struct stat* info) {
  const Place at(path);
  return ::fstatat(at.from, at.path, info, AT_SYMLINK_NOFOLLOW);
}

int Disk::list(const char* path, std::vector<std::string>& names) {
  const Place at(path);
  const int fd = ::openat(at.from, at.path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -1;
  DIR* folder = ::fdopendir(fd);
  if (folder == nullptr) {
    ::close(fd);
    return -1;
  }
  names.clear();
  errno = 0;
  // readdir() returns null both at the end and on errors; only errno tells them apart.
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  ::closedir(folder);
  errno = error;
  return error == 0 ? 0 : -1;
}

Disk& disk() {
  return *in_use().load(std::memory_order_acquire);
}

std::uint64_t bytes_read() {
  return read_so_far;
}

DiskInUse::DiskInUse(Disk& disk) : before_(in_use().exchange(&disk)) {}

DiskInUse::~DiskInUse() {
  in_use().store(before_);
}

}  // namespace echelon::fs
