#pragma once
#include <filesystem>
#include <string>

#include "base/fs.h"

namespace echelon {

/// A run's folder: recipe.yaml, metrics.jsonl, checkpoints/, logs/. Rank 0 of a job holds its lock as long as
/// this object lives; the kernel releases it with the process, however that ends.
class RunFolder {
 public:
  /// Creates what is missing. With `lock`: throws Error(kUsage) naming the owner when another job holds the
  /// folder.
  RunFolder(std::filesystem::path root, bool lock);

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  [[nodiscard]] std::filesystem::path metrics() const { return root_ / "metrics.jsonl"; }
  [[nodiscard]] std::filesystem::path log(int rank) const;
  /// For the other ranks: returns when rank 0 has let go of the lock, at once on a file system without locks.
  void wait_for_release() const;

 private:
  void take_lock();
  std::filesystem::path root_;
  fs::Fd lock_;
};

}  // namespace echelon
