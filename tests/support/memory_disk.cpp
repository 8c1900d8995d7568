#include "support/memory_disk.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "support/watched_disk.h"

namespace echelon::test {

DiskTree MemoryDisk::tree() const {
  const std::lock_guard lock(mutex_);
  return tree_;
}

int MemoryDisk::node_of(int fd) const {
  const auto found = open_.find(fd);
  if (found == open_.end()) return failed(EBADF);
  return found->second;
}

int MemoryDisk::open(const char* path, int flags, unsigned) {
  const std::lock_guard lock(mutex_);
  int node = tree_.find(path);
  if (node == DiskTree::kNone) {
    if ((flags & O_CREAT) == 0) return failed(ENOENT);
    const auto [folder, name] = tree_.place_of(path);
    if (folder == DiskTree::kNone) return failed(ENOENT);
    node = tree_.add(false);
    tree_.link(folder, name, node);
  } else if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) {
    return failed(EEXIST);
  }
  const bool folder = tree_.at(node).folder;
  if (folder && (flags & O_ACCMODE) != O_RDONLY) return failed(EISDIR);
  if (!folder && (flags & O_DIRECTORY) != 0) return failed(ENOTDIR);
  if ((flags & O_TRUNC) != 0) tree_.change(node).clear();
  open_[next_fd_] = node;
  return next_fd_++;
}

int MemoryDisk::close(int fd) {
  const std::lock_guard lock(mutex_);
  return open_.erase(fd) == 1 ? 0 : failed(EBADF);
}

ssize_t MemoryDisk::pread(int fd, void* to, std::size_t size, off_t offset) {
  const std::lock_guard lock(mutex_);
  const int node = node_of(fd);
  if (node < 0) return -1;
  if (tree_.at(node).folder) return failed(EISDIR);
  const std::uint64_t end = tree_.size(node);
  const auto at = static_cast<std::uint64_t>(offset);
  if (at >= end) return 0;
  const std::size_t count = std::min<std::uint64_t>(size, end - at);
  std::memcpy(to, tree_.at(node).bytes->data() + at, count);
  return static_cast<ssize_t>(count);
}

ssize_t MemoryDisk::pwrite(int fd, const void* from, std::size_t size, off_t offset) {
  const std::lock_guard lock(mutex_);
  const int node = node_of(fd);
  if (node < 0) return -1;
  tree_.write(node, static_cast<std::uint64_t>(offset), static_cast<const std::byte*>(from), size);
  return static_cast<ssize_t>(size);
}

int MemoryDisk::fsync(int fd) {
  const std::lock_guard lock(mutex_);
  return node_of(fd) < 0 ? -1 : 0;
}

int MemoryDisk::fallocate(int fd, off_t size) {
  const std::lock_guard lock(mutex_);
  const int node = node_of(fd);
  if (node < 0) return -1;
  if (tree_.size(node) < static_cast<std::uint64_t>(size))
    tree_.change(node).resize(static_cast<std::size_t>(size));
  return 0;
}
int MemoryDisk::ftruncate(int fd, off_t size) {
  const std::lock_guard lock(mutex_);
  const int node = node_of(fd);
  if (node < 0) return -1;
  tree_.change(node).resize(static_cast<std::size_t>(size));
  return 0;
}

int MemoryDisk::rename(const char* from, const char* to) {
  const std::lock_guard lock(mutex_);
  const int node = tree_.find(from);
  const auto [from_folder, from_name] = tree_.place_of(from);
  const auto [to_folder, to_name] = tree_.place_of(to);
  if (node == DiskTree::kNone || to_folder == DiskTree::kNone) return failed(ENOENT);
  if (const int old = tree_.entry(to_folder, to_name); old != DiskTree::kNone) {
    if (tree_.at(old).folder != tree_.at(node).folder) return failed(tree_.at(old).folder ? EISDIR : ENOTDIR);
    if (!tree_.at(old).entries.empty()) return failed(ENOTEMPTY);
  }
  tree_.link(from_folder, from_name, DiskTree::kNone);
  tree_.link(to_folder, to_name, node);
  return 0;
}

int MemoryDisk::rename_new(const char* from, const char* to) {
  struct stat info {};
  return lstat(to, &info) == 0 ? failed(EEXIST) : rename(from, to);
}

int MemoryDisk::link(const char* from, const char* to) {
  const std::lock_guard lock(mutex_);
  const int node = tree_.find(from);
  const auto [folder, name] = tree_.place_of(to);
  if (node == DiskTree::kNone || folder == DiskTree::kNone) return failed(ENOENT);
  if (tree_.entry(folder, name) != DiskTree::kNone) return failed(EEXIST);
  tree_.link(folder, name, node);
  return 0;
}

int MemoryDisk::unlink(const char* path) {
  const std::lock_guard lock(mutex_);
  const int node = tree_.find(path);
  if (node == DiskTree::kNone) return failed(ENOENT);
  if (tree_.at(node).folder) return failed(EISDIR);
  const auto [folder, name] = tree_.place_of(path);
  tree_.link(folder, name, DiskTree::kNone);
  return 0;
}

int MemoryDisk::mkdir(const char* path, unsigned) {
  const std::lock_guard lock(mutex_);
  if (tree_.find(path) != DiskTree::kNone) return failed(EEXIST);
  const auto [folder, name] = tree_.place_of(path);
  if (folder == DiskTree::kNone) return failed(ENOENT);
  const int node = tree_.add(true);
  tree_.link(folder, name, node);
  return 0;
}

int MemoryDisk::rmdir(const char* path) {
  const std::lock_guard lock(mutex_);
  const int node = tree_.find(path);
  if (node == DiskTree::kNone) return failed(ENOENT);
  if (!tree_.at(node).folder) return failed(ENOTDIR);
  if (!tree_.at(node).entries.empty()) return failed(ENOTEMPTY);
  const auto [folder, name] = tree_.place_of(path);
  tree_.link(folder, name, DiskTree::kNone);
  return 0;
}

void MemoryDisk::tell(int node, struct stat* info) const {
  *info = {};
  info->st_ino = static_cast<ino_t>(node) + 1;
  info->st_nlink = 1;
  info->st_mode = tree_.at(node).folder ? S_IFDIR | 0755U : S_IFREG | 0644U;
  info->st_size = static_cast<off_t>(tree_.size(node));
}

int MemoryDisk::fstat(int fd, struct stat* info) {
  const std::lock_guard lock(mutex_);
  const int node = node_of(fd);
  if (node < 0) return -1;
  tell(node, info);
  return 0;
}

int MemoryDisk::lstat(const char* path, struct stat* info) {
  const std::lock_guard lock(mutex_);
  const int node = tree_.find(path);
  if (node == DiskTree::kNone) return failed(ENOENT);
  tell(node, info);
  return 0;
}

int MemoryDisk::list(const char* path, std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  const int node = tree_.find(path);
  if (node == DiskTree::kNone) return failed(ENOENT);
  if (!tree_.at(node).folder) return failed(ENOTDIR);
  names.clear();
  for (const auto& [name, child] : tree_.at(node).entries) names.push_back(name);
  return 0;
}

}  // namespace echelon::test
