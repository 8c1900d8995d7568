#pragma once
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "support/watched_disk.h"

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
/// A rename or link is one of its new name. Thread-safe.
class FaultyDisk : public WatchedDisk {
 public:
  FaultyDisk(fs::Disk& below, std::vector<Fault> plan)
      : WatchedDisk([this](DiskRequest& request, const auto& make) { return strike(request, make); }, below) {
    for (Fault& fault : plan) plan_.push_back({std::move(fault)});
  }

  /// Calls made on paths that contain `path`, spoiled ones included.
  [[nodiscard]] int calls(DiskCall call, const std::string& path = "") const;
  /// How often the fault of that place in the plan struck.
  [[nodiscard]] int struck(std::size_t fault = 0) const;
  /// Lets hanging calls go on, those to come as well.
  void release();

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
  /// Makes the call unless a fault strikes instead.
  ssize_t strike(DiskRequest& request, const std::function<ssize_t()>& make);
  /// Waits as `fault` wants; false when the call is not to be made.
  bool goes_on(const Fault& fault);

  mutable std::mutex mutex_;
  std::condition_variable released_changed_;
  bool released_ = false;
  std::vector<Planned> plan_;  ///< never grows: faults are handed out by address
  std::vector<Made> made_;
};

/// A disk without room for what lies at paths that contain `part`: every write there fails.
struct FullDisk : FaultyDisk {
  explicit FullDisk(std::string part = "")
      : FaultyDisk(fs::disk(), {{.path = std::move(part), .times = Fault::kForever, .error = ENOSPC}}) {}
};

}  // namespace echelon::test
