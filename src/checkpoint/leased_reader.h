#pragma once
#include <filesystem>

#include "checkpoint/contents.h"
#include "checkpoint/lease.h"
#include "checkpoint/reader.h"

namespace echelon::checkpoint {

/// A checkpoint opened by somebody who is not the run that owns it: no prune() removes it meanwhile.
struct LeasedReader {
  /// As newest_commit(): a step folder, or a run's folder for the commit made last, whole or not. Throws
  /// Error(kCheckpoint).
  explicit LeasedReader(const std::filesystem::path& checkpoint)
      : folder(newest_commit(checkpoint)), lease(folder), reader(folder) {}

  std::filesystem::path folder;
  ReadLease lease;
  Reader reader;
};

}  // namespace echelon::checkpoint
