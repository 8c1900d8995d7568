#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/watched_disk.h"

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
class RecordingDisk : public WatchedDisk {
 public:
  explicit RecordingDisk(fs::Disk& below)
      : WatchedDisk([this](DiskRequest& request, const auto& make) { return keep(request, make); }, below) {}

  void note(std::string text);
  [[nodiscard]] std::vector<Operation> operations() const;

 private:
  ssize_t keep(const DiskRequest& request, const std::function<ssize_t()>& make);

  mutable std::mutex mutex_;  ///< held over a call and its note, so that the order is the true one
  std::unordered_map<int, int> handles_;  ///< by descriptor
  int opened_ = 0;
  std::vector<Operation> operations_;
};

}  // namespace echelon::test
