#include "support/recording_disk.h"

#include <fcntl.h>

namespace echelon::test {

void RecordingDisk::note(std::string text) {
  const std::lock_guard lock(mutex_);
  operations_.push_back({.kind = Operation::Kind::kNote, .path = std::move(text)});
}

std::vector<Operation> RecordingDisk::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

int RecordingDisk::keep(int fd, int result, Operation operation) {
  if (result != 0) return result;
  const Open& file = open_.at(fd);
  operation.handle = file.handle;
  operation.path = file.path;
  operations_.push_back(std::move(operation));
  return result;
}

int RecordingDisk::open(const char* path, int flags, unsigned mode) {
  const std::lock_guard lock(mutex_);
  const int fd = below_->open(path, flags, mode);
  if (fd < 0) return fd;
  open_[fd] = {handles_++, path};
  // Every open is kept, reading ones too: a flush needs no write access.
  operations_.push_back({.call = (flags & O_CREAT) != 0 ? DiskCall::kCreate : DiskCall::kOpen,
                         .path = path,
                         .handle = open_[fd].handle,
                         .truncates = (flags & O_TRUNC) != 0});
  return fd;
}

int RecordingDisk::close(int fd) {
  const std::lock_guard lock(mutex_);
  open_.erase(fd);
  return below_->close(fd);
}

ssize_t RecordingDisk::pread(int fd, void* to, std::size_t size, off_t offset) {
  return below_->pread(fd, to, size, offset);
}

ssize_t RecordingDisk::pwrite(int fd, const void* from, std::size_t size, off_t offset) {
  const std::lock_guard lock(mutex_);
  const ssize_t written = below_->pwrite(fd, from, size, offset);
  if (written > 0) {
    const auto* bytes = static_cast<const std::byte*>(from);
    (void)keep(fd, 0,
               {.call = DiskCall::kWrite,
                .offset = static_cast<std::uint64_t>(offset),
                .bytes = {bytes, bytes + written}});
  }
  return written;
}

int RecordingDisk::fsync(int fd) {
  const std::lock_guard lock(mutex_);
  return keep(fd, below_->fsync(fd), {.call = DiskCall::kFlush});
}
int RecordingDisk::fdatasync(int fd) {
  const std::lock_guard lock(mutex_);
  return keep(fd, below_->fdatasync(fd), {.call = DiskCall::kFlush});
}
int RecordingDisk::fallocate(int fd, off_t size) {
  const std::lock_guard lock(mutex_);
  return keep(fd, below_->fallocate(fd, size),
              {.call = DiskCall::kReserve, .size = static_cast<std::uint64_t>(size)});
}
int RecordingDisk::ftruncate(int fd, off_t size) {
  const std::lock_guard lock(mutex_);
  return keep(fd, below_->ftruncate(fd, size),
              {.call = DiskCall::kResize, .size = static_cast<std::uint64_t>(size)});
}

int RecordingDisk::rename(const char* from, const char* to) {
  const std::lock_guard lock(mutex_);
  const int result = below_->rename(from, to);
  if (result == 0) operations_.push_back({.call = DiskCall::kRename, .path = from, .to = to});
  return result;
}
int RecordingDisk::rename_new(const char* from, const char* to) {
  const std::lock_guard lock(mutex_);
  const int result = below_->rename_new(from, to);
  if (result == 0) operations_.push_back({.call = DiskCall::kRename, .path = from, .to = to});
  return result;
}
int RecordingDisk::link(const char* from, const char* to) {
  const std::lock_guard lock(mutex_);
  const int result = below_->link(from, to);
  if (result == 0) operations_.push_back({.call = DiskCall::kLink, .path = from, .to = to});
  return result;
}
int RecordingDisk::unlink(const char* path) {
  const std::lock_guard lock(mutex_);
  const int result = below_->unlink(path);
  if (result == 0) operations_.push_back({.call = DiskCall::kUnlink, .path = path});
  return result;
}
int RecordingDisk::mkdir(const char* path, unsigned mode) {
  const std::lock_guard lock(mutex_);
  const int result = below_->mkdir(path, mode);
  if (result == 0) operations_.push_back({.call = DiskCall::kMkdir, .path = path});
  return result;
}
int RecordingDisk::rmdir(const char* path) {
  const std::lock_guard lock(mutex_);
  const int result = below_->rmdir(path);
  if (result == 0) operations_.push_back({.call = DiskCall::kRmdir, .path = path});
  return result;
}

int RecordingDisk::fstat(int fd, struct stat* info) {
  return below_->fstat(fd, info);
}
int RecordingDisk::lstat(const char* path, struct stat* info) {
  return below_->lstat(path, info);
}
int RecordingDisk::list(const char* path, std::vector<std::string>& names) {
  return below_->list(path, names);
}

}  // namespace echelon::test
