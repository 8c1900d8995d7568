#pragma once
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/not_copied.h"

/// Every system call that touches a file goes through a Disk, so that a test can record, fail, cut short,
/// reorder or lose any of them (the idea of SQLite's VFS and of RocksDB's FaultInjectionTestFS).
namespace echelon::fs {

/// The calls, named and behaving like those of POSIX: -1 and errno on failure, short transfers allowed. This
/// class makes the real ones; a test derives from it. Called from several threads.
class Disk {
 public:
  virtual ~Disk() = default;
  virtual int open(const char* path, int flags, unsigned mode);  ///< O_CLOEXEC is added
  virtual int close(int fd);
  virtual ssize_t pread(int fd, void* to, std::size_t size, off_t offset);
  virtual ssize_t pwrite(int fd, const void* from, std::size_t size, off_t offset);
  virtual int fsync(int fd);  ///< of a file or a folder
  virtual int fallocate(int fd, off_t size);
  virtual int ftruncate(int fd, off_t size);
  virtual int rename(const char* from, const char* to);
  virtual int rename_new(const char* from, const char* to);  ///< fails where `to` exists
  virtual int link(const char* from, const char* to);        ///< a second name of a file
  virtual int unlink(const char* path);
  virtual int mkdir(const char* path, unsigned mode);
  virtual int rmdir(const char* path);
  virtual int fstat(int fd, struct stat* info);
  virtual int lstat(const char* path, struct stat* info);
  /// Names of a folder's entries without "." and "..", in no order.
  virtual int list(const char* path, std::vector<std::string>& names);
};

/// The one in use: the real one unless a DiskInUse lives.
[[nodiscard]] Disk& disk();

/// What this process has read so far: shows that a long read gets on.
[[nodiscard]] std::uint64_t bytes_read();

/// For tests: replaces the Disk of this process while it lives. Do not create or destroy it while another
/// thread uses files.
class DiskInUse : NotCopied {
 public:
  explicit DiskInUse(Disk& disk);
  ~DiskInUse();

 private:
  Disk* before_;
};

}  // namespace echelon::fs
