#pragma once
#include <cerrno>
#include <mutex>
#include <set>
#include <string>

#include "base/files/disk.h"

namespace echelon::test {

/// A disk without room for what lies at paths that hold `part`: every write there fails.
class FullDisk : public fs::Disk {
 public:
  explicit FullDisk(std::string part = "") : part_(std::move(part)) {}

  int open(const char* path, int flags, unsigned mode) override {
    const int fd = Disk::open(path, flags, mode);
    const std::lock_guard lock(mutex_);
    if (fd >= 0 && std::string(path).find(part_) != std::string::npos) full_.insert(fd);
    return fd;
  }
  int close(int fd) override {
    {
      const std::lock_guard lock(mutex_);
      full_.erase(fd);
    }
    return Disk::close(fd);
  }
  ssize_t pwrite(int fd, const void* from, std::size_t size, off_t offset) override {
    {
      const std::lock_guard lock(mutex_);
      if (full_.contains(fd)) {
        errno = ENOSPC;
        return -1;
      }
    }
    return Disk::pwrite(fd, from, size, offset);
  }

 private:
  std::string part_;
  std::mutex mutex_;
  std::set<int> full_;
};

}  // namespace echelon::test
