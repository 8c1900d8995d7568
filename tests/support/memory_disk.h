#pragma once
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/disk_tree.h"
#include "support/in_use.h"

namespace echelon::test {

/// A disk whose folders and files lie in a DiskTree. Knows no symbolic links, rights or limits; everything is
/// durable at once, so it takes other classes to lose something. Thread-safe.
class MemoryDisk : public fs::Disk {
 public:
  explicit MemoryDisk(DiskTree tree) : tree_(std::move(tree)) {}

  [[nodiscard]] DiskTree tree() const;

  int open(const char* path, int flags, unsigned mode) override;
  int close(int fd) override;
  ssize_t pread(int fd, void* to, std::size_t size, off_t offset) override;
  ssize_t pwrite(int fd, const void* from, std::size_t size, off_t offset) override;
  int fsync(int fd) override;
  int fallocate(int fd, off_t size) override;
  int ftruncate(int fd, off_t size) override;
  int rename(const char* from, const char* to) override;
  int rename_new(const char* from, const char* to) override;
  int link(const char* from, const char* to) override;
  int unlink(const char* path) override;
  int mkdir(const char* path, unsigned mode) override;
  int rmdir(const char* path) override;
  int fstat(int fd, struct stat* info) override;
  int lstat(const char* path, struct stat* info) override;
  int list(const char* path, std::vector<std::string>& names) override;

 private:
  void tell(int node, struct stat* info) const;
  /// The open file's node, or kNone with errno.
  [[nodiscard]] int node_of(int fd) const;

  mutable std::mutex mutex_;
  DiskTree tree_;
  std::unordered_map<int, int> open_;  ///< file descriptor -> node
  int next_fd_ = 1 << 24;              ///< far from the descriptors of real files
};

}  // namespace echelon::test
