#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/files/disk.h"
#include "support/disk_call.h"

namespace echelon::test {

/// A call that opened a file, changed a disk or made changes durable, or a note of the test between two of
/// them.
struct Operation {
  enum class Kind { kCall, kNote };
  Kind kind = Kind::kCall;
  DiskCall call = DiskCall::kWrite;  ///< never kClose, kRead, kStat or kList
  std::string path;                  ///< the file or folder as it was named; the text of a note
  std::string to;                    ///< rename and link: the new name
  int handle = -1;                   ///< which open file; every kOpen and kCreate begins one
  bool truncates = false;            ///< open: with O_TRUNC
  std::uint64_t offset = 0;          ///< write: where
  std::uint64_t size = 0;            ///< reserve, resize: the size
  std::vector<std::byte> bytes;      ///< write: what
};

/// Passes every call on and keeps those that change something, in the order in which they took effect,
/// content included. Failed calls are not kept. Thread-safe.
class RecordingDisk : public fs::Disk {
 public:
  explicit RecordingDisk(fs::Disk& below) : below_(&below) {}

  void note(std::string text);
  [[nodiscard]] std::vector<Operation> operations() const;

  int open(const char* path, int flags, unsigned mode) override;
  int close(int fd) override;
  ssize_t pread(int fd, void* to, std::size_t size, off_t offset) override;
  ssize_t pwrite(int fd, const void* from, std::size_t size, off_t offset) override;
  int fsync(int fd) override;
  int fdatasync(int fd) override;
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
  struct Open {
    int handle = -1;
    std::string path;
  };
  /// Keeps `operation` of an open file unless `result` tells of a failure; returns `result`.
  int keep(int fd, int result, Operation operation);

  fs::Disk* below_;
  mutable std::mutex mutex_;  ///< held over a call and its note, so that the order is the true one
  std::unordered_map<int, Open> open_;
  int handles_ = 0;
  std::vector<Operation> operations_;
};

}  // namespace echelon::test
