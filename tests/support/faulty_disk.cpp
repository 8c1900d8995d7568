#include "support/faulty_disk.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace echelon::test {

int FaultyDisk::calls(DiskCall call, const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(made_.begin(), made_.end(), [&](const Made& made) {
    return made.call == call && made.path.find(path) != std::string::npos;
  }));
}

int FaultyDisk::struck(std::size_t fault) const {
  const std::lock_guard lock(mutex_);
  return plan_.at(fault).struck;
}

std::vector<std::string> FaultyDisk::open_files() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [fd, path] : open_) paths.push_back(path);
  return paths;
}

void FaultyDisk::release() {
  {
    const std::lock_guard lock(mutex_);
    released_ = true;
  }
  released_changed_.notify_all();
}

const Fault* FaultyDisk::meet(DiskCall call, const std::string& path) {
  const std::lock_guard lock(mutex_);
  made_.push_back({call, path});
  const Fault* found = nullptr;
  for (Planned& planned : plan_) {
    const Fault& fault = planned.fault;
    if (fault.call != call || path.find(fault.path) == std::string::npos) continue;
    ++planned.met;
    const int since = planned.met - fault.nth;
    if (found != nullptr || since < 0 || since >= fault.times || since % fault.every != 0) continue;
    ++planned.struck;
    found = &fault;
  }
  return found;
}

std::string FaultyDisk::path_of(int fd) const {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(fd);
  return found == open_.end() ? "" : found->second;
}

bool FaultyDisk::goes_on(const Fault& fault) {
  switch (fault.does) {
    case Fault::Does::kFail:
      errno = fault.error;
      return false;
    case Fault::Does::kPretend:
      return false;
    case Fault::Does::kShorten:
      return true;
    case Fault::Does::kDelay:
      std::this_thread::sleep_for(std::chrono::milliseconds(fault.milliseconds));
      return true;
    case Fault::Does::kHang:
      std::unique_lock lock(mutex_);
      released_changed_.wait(lock, [&] { return released_; });
      return true;
  }
  return true;
}

int FaultyDisk::strike(DiskCall call, const std::string& path, const std::function<int()>& real) {
  const Fault* fault = meet(call, path);
  if (fault == nullptr || goes_on(*fault)) return real();
  return fault->does == Fault::Does::kPretend ? 0 : -1;
}

ssize_t FaultyDisk::move(DiskCall call, int fd, std::size_t size,
                         const std::function<ssize_t(std::size_t)>& real) {
  const Fault* fault = meet(call, path_of(fd));
  if (fault == nullptr) return real(size);
  if (goes_on(*fault))
    return real(fault->does == Fault::Does::kShorten ? std::min(size, fault->bytes) : size);
  return fault->does == Fault::Does::kPretend ? static_cast<ssize_t>(size) : -1;
}

int FaultyDisk::open(const char* path, int flags, unsigned mode) {
  return strike((flags & O_CREAT) != 0 ? DiskCall::kCreate : DiskCall::kOpen, path, [&] {
    const int fd = below_->open(path, flags, mode);
    if (fd >= 0) {
      const std::lock_guard lock(mutex_);
      open_[fd] = path;
    }
    return fd;
  });
}

// A close that fails has closed all the same, as on Linux.
int FaultyDisk::close(int fd) {
  const std::string path = path_of(fd);
  {
    const std::lock_guard lock(mutex_);
    open_.erase(fd);
  }
  const int result = below_->close(fd);
  return strike(DiskCall::kClose, path, [&] { return result; });
}

ssize_t FaultyDisk::pread(int fd, void* to, std::size_t size, off_t offset) {
  return move(DiskCall::kRead, fd, size, [&](std::size_t n) { return below_->pread(fd, to, n, offset); });
}
ssize_t FaultyDisk::pwrite(int fd, const void* from, std::size_t size, off_t offset) {
  return move(DiskCall::kWrite, fd, size, [&](std::size_t n) { return below_->pwrite(fd, from, n, offset); });
}
int FaultyDisk::fsync(int fd) {
  return strike(DiskCall::kFlush, path_of(fd), [&] { return below_->fsync(fd); });
}
int FaultyDisk::fdatasync(int fd) {
  return strike(DiskCall::kFlush, path_of(fd), [&] { return below_->fdatasync(fd); });
}
int FaultyDisk::fallocate(int fd, off_t size) {
  return strike(DiskCall::kReserve, path_of(fd), [&] { return below_->fallocate(fd, size); });
}
int FaultyDisk::ftruncate(int fd, off_t size) {
  return strike(DiskCall::kResize, path_of(fd), [&] { return below_->ftruncate(fd, size); });
}
int FaultyDisk::rename(const char* from, const char* to) {
  return strike(DiskCall::kRename, to, [&] { return below_->rename(from, to); });
}
int FaultyDisk::rename_new(const char* from, const char* to) {
  return strike(DiskCall::kRename, to, [&] { return below_->rename_new(from, to); });
}
int FaultyDisk::link(const char* from, const char* to) {
  return strike(DiskCall::kLink, to, [&] { return below_->link(from, to); });
}
int FaultyDisk::unlink(const char* path) {
  return strike(DiskCall::kUnlink, path, [&] { return below_->unlink(path); });
}
int FaultyDisk::mkdir(const char* path, unsigned mode) {
  return strike(DiskCall::kMkdir, path, [&] { return below_->mkdir(path, mode); });
}
int FaultyDisk::rmdir(const char* path) {
  return strike(DiskCall::kRmdir, path, [&] { return below_->rmdir(path); });
}
int FaultyDisk::fstat(int fd, struct stat* info) {
  return strike(DiskCall::kStat, path_of(fd), [&] { return below_->fstat(fd, info); });
}
int FaultyDisk::lstat(const char* path, struct stat* info) {
  return strike(DiskCall::kStat, path, [&] { return below_->lstat(path, info); });
}
int FaultyDisk::list(const char* path, std::vector<std::string>& names) {
  return strike(DiskCall::kList, path, [&] { return below_->list(path, names); });
}

}  // namespace echelon::test
