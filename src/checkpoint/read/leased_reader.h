#pragma once
#include <filesystem>

#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/lease.h"
#include "checkpoint/read/reader.h"

namespace echelon::checkpoint {

/// A checkpoint opened by somebody who is not the run that owns it: no prune() removes it meanwhile.
struct LeasedReader {
  /// As newest_commit(): a step folder, or a run's folder for the commit made last, whole or not. Warns,
  /// where `tells` (one of several ranks does), when it is read without a lease. Throws Error(kCheckpoint).
  explicit LeasedReader(const std::filesystem::path& checkpoint, bool tells = true)
      : folder(newest_commit(checkpoint)), lease(folder), reader(folder) {
    if (tells) warn_without(lease);
  }

  std::filesystem::path folder;
  FolderLease lease;
  Reader reader;
};

}  // namespace echelon::checkpoint
