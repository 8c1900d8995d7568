#pragma once
#include <functional>
#include <mutex>
#include <string>

#include "base/files/disk.h"

namespace echelon::test {

/// The real disk, on which somebody else does something before the `nth` call that names a path. Thread-safe.
class SwappingDisk : public fs::Disk {
 public:
  SwappingDisk(int nth, std::function<void()> swap) : left_(nth), swap_(std::move(swap)) {}

  [[nodiscard]] bool has_swapped() const { return left_ <= 0; }

  int open(const char* path, int flags, unsigned mode) override {
    return before(), Disk::open(path, flags, mode);
  }
  int rename(const char* from, const char* to) override { return before(), Disk::rename(from, to); }
  int rename_new(const char* from, const char* to) override { return before(), Disk::rename_new(from, to); }
  int link(const char* from, const char* to) override { return before(), Disk::link(from, to); }
  int unlink(const char* path) override { return before(), Disk::unlink(path); }
  int mkdir(const char* path, unsigned mode) override { return before(), Disk::mkdir(path, mode); }
  int rmdir(const char* path) override { return before(), Disk::rmdir(path); }
  int lstat(const char* path, struct stat* info) override { return before(), Disk::lstat(path, info); }
  int list(const char* path, std::vector<std::string>& names) override {
    return before(), Disk::list(path, names);
  }

 private:
  void before() {
    const std::lock_guard lock(mutex_);
    if (--left_ == 0) swap_();
  }

  std::mutex mutex_;
  int left_;
  std::function<void()> swap_;
};

}  // namespace echelon::test
