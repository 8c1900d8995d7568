#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/files/new_file.h"
#include "metrics/line.h"
#include "metrics/tracked_run.h"

namespace echelon::metrics {

/// An offline run of Weights & Biases, as `wandb sync` uploads it: the log of LevelDB (blocks of 32 KiB,
/// records with a CRC-32) with the Record messages of wandb/proto/wandb_internal.proto. Throws
/// Error(kEnvironment).
class WandbRun {
 public:
  /// Begins FOLDER/offline-run-<day>_<time>-<id>/run-<id>.wandb, whose folders are made. `began_s`: the start
  /// of the run, since 1970.
  WandbRun(const std::filesystem::path& folder, const TrackedRun& run, double began_s);

  /// Lines come with rising steps.
  void append(const Line& line);
  /// Ends the run. The file exists from now on, in place of an earlier one. Returns the run's folder.
  std::filesystem::path finish();

 private:
  /// Adds Record `message` to the log.
  void record(std::string_view message);
  void flush();

  std::filesystem::path folder_;
  std::filesystem::path path_;
  fs::NewFile file_;
  double began_s_;
  double last_s_;
  std::uint64_t end_ = 0;  ///< of the log, with what waits
  std::string waiting_;    ///< not yet written
  std::uint64_t records_ = 0;
  std::map<std::string, std::string> newest_;  ///< text of each value
};

}  // namespace echelon::metrics
