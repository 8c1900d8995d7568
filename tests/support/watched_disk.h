#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/in_use.h"

namespace echelon::test {

/// The calls of fs::Disk, as tests tell them apart.
enum class DiskCall {
  kOpen,    ///< open without O_CREAT
  kCreate,  ///< open with O_CREAT
  kClose,
  kRead,
  kWrite,
  kFlush,    ///< of a file or a folder
  kReserve,  ///< fallocate
  kResize,   ///< ftruncate
  kRename,   ///< rename and rename_new
  kLink,
  kUnlink,
  kMkdir,
  kRmdir,
  kStat,  ///< fstat and lstat
  kList,
};

struct DiskRequest {
  DiskCall call;
  std::string path;                  ///< as it was named; of an open file, when it was opened
  std::string to = {};               ///< rename and link: the new name
  int fd = -1;                       ///< of a call on an open file
  int flags = 0;                     ///< of an open
  std::uint64_t offset = 0;          ///< read, write
  std::uint64_t size = 0;            ///< read, write, reserve, resize
  const std::byte* bytes = nullptr;  ///< write
};

/// Gives every call to one function, which makes it on the disk below, or does something else. Thread-safe if
/// the function is.
class WatchedDisk : public fs::Disk {
 public:
  /// `make` makes the call, with the size of the request as it is then, and returns its result.
  using Watch = std::function<ssize_t(DiskRequest& request, const std::function<ssize_t()>& make)>;

  explicit WatchedDisk(Watch watch, fs::Disk& below = fs::disk())
      : below_(&below), watch_(std::move(watch)) {}

  /// Paths of the files that are open.
  [[nodiscard]] std::vector<std::string> open_files() const;

  int open(const char* path, int flags, unsigned mode) override;
  /// A close that fails has closed all the same, as on Linux.
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
  int watched(DiskRequest request, const std::function<ssize_t()>& make);
  [[nodiscard]] std::string path_of(int fd) const;

  fs::Disk* below_;
  Watch watch_;
  mutable std::mutex mutex_;
  std::unordered_map<int, std::string> open_;
};

/// The result of a call that fails with `error`.
inline int failed(int error) {
  errno = error;
  return -1;
}

}  // namespace echelon::test
