#pragma once
#include <chrono>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/files/fs.h"
#include "run/signals.h"

namespace echelon {

/// The lock in a run folder, in which rank 0 of each start writes its name.
inline constexpr std::string_view kRunLock = ".lock";

struct RunFolderRules {
  bool allow_foreign = false;                ///< the folder may belong to another user
  std::chrono::milliseconds patience{5000};  ///< with the lock's owner, who may just be going
  /// True if this start follows a lost one within one start of a Slurm job, whose ranks are gone. It then
  /// does not wait for a lock of this job, because a file server may keep the lock of a dead node for
  /// minutes.
  bool after_loss = false;
};

/// A run's folder: recipe.yaml, metrics.jsonl, checkpoints/, logs/. Rank 0 of a job holds its lock as long as
/// this object lives; the kernel releases it with the process, however that ends.
class RunFolder {
 public:
  /// Creates what is missing. Throws Error(kUsage) for a folder that cannot be written or belongs to another
  /// user; with `lock` also, naming the owner, when another job holds it and does not let go in time. A
  /// requeued job goes on without the lock of its own earlier start.
  RunFolder(std::filesystem::path root, bool lock, const RunFolderRules& rules = {});

  /// Removes the folders that this object made, with the lock, the logs of ranks and the ledger, after a
  /// start that failed before anything was worth keeping. If they hold anything else, nothing is removed.
  /// With `lock` only, and once; the log goes on without a file.
  void remove_if_made() noexcept;

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  /// Returns whether an earlier start had left its record here.
  [[nodiscard]] bool has_record() const { return has_record_; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  [[nodiscard]] std::filesystem::path metrics() const { return root_ / "metrics.jsonl"; }
  [[nodiscard]] std::filesystem::path log(int rank) const;
  /// Takes the lock if this start went on without it and its lost owner has let go by now; call it from time
  /// to time.
  void lock_if_free() noexcept;
  /// Returns whether this start goes on without the lock, which a lost one still holds.
  [[nodiscard]] bool lacks_lock() const { return lacks_lock_; }
  /// For the other ranks: waits until rank 0 has released the lock, or a stop is requested. Returns at once
  /// on a file system without locks. If rank 0 lacks the lock, do not call it: the lost start may hold it for
  /// long.
  void wait_for_release(const StopSignal& signal) const;

 private:
  void take_lock(const RunFolderRules& rules);
  std::filesystem::path root_;
  std::vector<std::filesystem::path> made_;  ///< of the root and what is above it, outermost first
  bool has_record_ = false;
  fs::Fd lock_;
  bool lacks_lock_ = false;  ///< a lost start holds it
};

}  // namespace echelon
