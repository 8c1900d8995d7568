#include "base/files/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string_view>

namespace echelon::fs {
namespace {

// One per process, like the file systems behind it: passing it to every function would not make two of them
// independent.
std::atomic<Disk*>& in_use() {
  static Disk real;
  static std::atomic<Disk*> current{&real};
  return current;
}

}  // namespace

int Disk::open(const char* path, int flags, unsigned mode) {
  return ::open(path, flags | O_CLOEXEC, mode);
}
int Disk::close(int fd) {
  return ::close(fd);
}
ssize_t Disk::pread(int fd, void* to, std::size_t size, off_t offset) {
  return ::pread(fd, to, size, offset);
}
ssize_t Disk::pwrite(int fd, const void* from, std::size_t size, off_t offset) {
  return ::pwrite(fd, from, size, offset);
}
int Disk::fsync(int fd) {
  return ::fsync(fd);
}
int Disk::fdatasync(int fd) {
  return ::fdatasync(fd);
}
int Disk::fallocate(int fd, off_t size) {
  return ::fallocate(fd, 0, 0, size);
}
int Disk::ftruncate(int fd, off_t size) {
  return ::ftruncate(fd, size);
}
int Disk::rename(const char* from, const char* to) {
  return ::rename(from, to);
}
int Disk::rename_new(const char* from, const char* to) {
  return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}
int Disk::link(const char* from, const char* to) {
  return ::link(from, to);
}
int Disk::unlink(const char* path) {
  return ::unlink(path);
}
int Disk::mkdir(const char* path, unsigned mode) {
  return ::mkdir(path, mode);
}
int Disk::rmdir(const char* path) {
  return ::rmdir(path);
}
int Disk::fstat(int fd, struct stat* info) {
  return ::fstat(fd, info);
}
int Disk::lstat(const char* path, struct stat* info) {
  return ::lstat(path, info);
}

int Disk::list(const char* path, std::vector<std::string>& names) {
  DIR* folder = ::opendir(path);
  if (folder == nullptr) return -1;
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

DiskInUse::DiskInUse(Disk& disk) : before_(in_use().exchange(&disk)) {}

DiskInUse::~DiskInUse() {
  in_use().store(before_);
}

}  // namespace echelon::fs
