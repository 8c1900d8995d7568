#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/files.h"

namespace echelon::checkpoint {

/// The indexes of a checkpoint's shards by rank. Each is loaded and checked whole at its first use: with
/// block checksums, the indexes of a large checkpoint take hundreds of megabytes, and a rank reads few
/// shards. Thread-safe.
class ShardIndexes {
 public:
  /// Loads nothing. `manifest` must outlive it.
  ShardIndexes(std::filesystem::path folder, const Manifest& manifest);
  /// Has these already and loads no others: what salvage() found.
  ShardIndexes(std::filesystem::path folder, const Manifest& manifest, std::vector<ShardIndex> loaded);

  /// Throws Error(kCheckpoint) as load_shard_index() does.
  [[nodiscard]] const ShardIndex& of(std::size_t rank) const;
  [[nodiscard]] std::filesystem::path path(std::size_t rank) const;
  /// Opens the shard. Throws Error(kCheckpoint) also where its size is no longer the manifest's.
  [[nodiscard]] InputFile open(std::size_t rank) const;
  [[nodiscard]] std::size_t ranks() const { return manifest_->shards.size(); }

 private:
  std::filesystem::path folder_;
  const Manifest* manifest_;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<const ShardIndex>> loaded_
      ECHELON_GUARDED_BY(mutex_);  ///< by rank; null: not yet
};

}  // namespace echelon::checkpoint
