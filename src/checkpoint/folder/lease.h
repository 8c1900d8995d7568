#pragma once
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace echelon::checkpoint {

/// Marks a checkpoint as being read by this process, so that no prune() removes it: a file
/// ".lease-<step folder>-<host>-<pid>-<id>" beside the step folder, touched by a thread every few minutes and
/// removed at the end. Take it before opening the checkpoint: prune() looks again after it has renamed a
/// folder, so one of the two notices the other.
///
/// Without write permission, or if the folder is not named like a step folder, there is no lease; note() says
/// so.
class ReadLease {
 public:
  explicit ReadLease(const std::filesystem::path& step_folder);
  ReadLease(const ReadLease&) = delete;
  ReadLease& operator=(const ReadLease&) = delete;
  ~ReadLease();

  /// Why there is no lease, for people; empty when there is one.
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  void keep_fresh();

  std::filesystem::path file_;
  std::string note_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;
  std::thread thread_;
};

/// Warns when there is no lease.
void warn_without(const ReadLease& lease);

/// A lease found in a checkpoints folder.
struct Lease {
  std::filesystem::path file;
  std::string step_folder;  ///< name of the folder that is read
  std::string holder;       ///< "process 12 on node-3", for people
  bool stale = false;       ///< its process is gone from this host, or it was not touched for an hour
};
/// Sorted by file. A folder that does not exist gives an empty list.
[[nodiscard]] std::vector<Lease> leases_in(const std::filesystem::path& checkpoints);

}  // namespace echelon::checkpoint
