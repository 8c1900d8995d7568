#pragma once
#include <condition_variable>
#include <filesystem>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/not_copied.h"

namespace echelon::checkpoint {

enum class LeaseKind {
  kReader,  ///< of a committed checkpoint
  kWriter,  ///< of a save under way
};

/// Marks a checkpoint as being read or written by this process, so that no prune() removes it: a file
/// ".lease-<step folder>-<host>-<pid>-<id>" (of a writer: ".save-...") beside the step folder, touched by a
/// thread every few minutes and removed at the end. A reader takes it before it opens the checkpoint: prune()
/// looks again after it has renamed a folder, so one of the two notices the other. A writer takes it before
/// it makes the folder: who sees the folder also sees the lease.
///
/// Without write permission, or if the folder is not named like a step folder, there is no lease; note() says
/// so.
class FolderLease : NotCopied {
 public:
  explicit FolderLease(const std::filesystem::path& step_folder, LeaseKind kind = LeaseKind::kReader);
  ~FolderLease();

  /// Why there is no lease, for people; empty when there is one.
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  void keep_fresh(const std::stop_token& stop);

  std::filesystem::path file_;
  std::string note_;
  std::condition_variable_any pause_;
  std::jthread thread_;
};

/// Warns when there is no lease.
void warn_without(const FolderLease& lease);

/// A lease found in a checkpoints folder.
struct Lease {
  std::filesystem::path file;
  LeaseKind kind = LeaseKind::kReader;
  std::string step_folder;  ///< name of the folder that is read or written
  std::string holder;       ///< "process 12 on node-3", for people
  /// Its process is gone. Where that cannot be asked, on another host or in another container: the lease was
  /// not touched for an hour.
  bool stale = false;
};
/// Sorted by file. A folder that does not exist gives an empty list.
[[nodiscard]] std::vector<Lease> leases_in(const std::filesystem::path& checkpoints);

}  // namespace echelon::checkpoint
