#pragma once
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/files/disk.h"
#include "support/disk_call.h"

namespace echelon::test {

/// What goes wrong, and when.
struct Fault {
  enum class Does {
    kFail,     ///< nothing happens; -1 with `error`
    kShorten,  ///< a read or write moves at most `bytes` bytes
    kPretend,  ///< nothing happens, success is told: a disk that lies about a flush
    kDelay,    ///< `milliseconds` later as always: a slow disk
    kHang,     ///< after FaultyDisk::release() as always
  };
  static constexpr int kForever = std::numeric_limits<int>::max();

  DiskCall call = DiskCall::kWrite;
  std::string path;  ///< only on paths that contain this
  int nth = 1;       ///< from the nth such call on
  int times = 1;     ///< so many of them
  int every = 1;     ///< only every so manieth of these
  Does does = Does::kFail;
  int error = 0;  ///< errno
  std::size_t bytes = 1;
  int milliseconds = 0;
};

/// Passes every call on but those that its plan spoils. Of several faults that fit a call the first counts.
/// Thread-safe.
class FaultyDisk : public fs::Disk {
 public:
  FaultyDisk(fs::Disk& below, std::vector<Fault> plan) : below_(&below) {
    for (Fault& fault : plan) plan_.push_back({std::move(fault)});
  }

  /// Calls made on paths that contain `path`, spoiled ones included.
  [[nodiscard]] int calls(DiskCall call, const std::string& path = "") const;
  /// How often the fault of that place in the plan struck.
  [[nodiscard]] int struck(std::size_t fault = 0) const;
  /// Paths of the files that are open.
  [[nodiscard]] std::vector<std::string> open_files() const;
  /// Lets hanging calls go on, those to come as well.
  void release();

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
  struct Planned {
    Fault fault;
    int met = 0;
    int struck = 0;
  };
  struct Made {
    DiskCall call;
    std::string path;
  };

  /// The fault that strikes this call, or null.
  const Fault* meet(DiskCall call, const std::string& path);
  [[nodiscard]] std::string path_of(int fd) const;
  /// Makes the call `real` unless a fault strikes instead.
  int strike(DiskCall call, const std::string& path, const std::function<int()>& real);
  ssize_t move(DiskCall call, int fd, std::size_t size, const std::function<ssize_t(std::size_t)>& real);
  /// Waits as `fault` wants; false when the call is not to be made.
  bool goes_on(const Fault& fault);

  fs::Disk* below_;
  mutable std::mutex mutex_;
  std::condition_variable released_changed_;
  bool released_ = false;
  std::vector<Planned> plan_;  ///< never grows: faults are handed out by address
  std::vector<Made> made_;
  std::unordered_map<int, std::string> open_;
};

}  // namespace echelon::test
