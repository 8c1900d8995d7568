#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/options.h"
#include "comm/communicator.h"
#include "train/run_folder.h"
#include "train/train_state.h"

namespace echelon {

/// Saves and restores a TrainState through rank-sharded checkpoints. All calls are collective; the geometry
/// of the slices is known to every rank, so nothing is planned between them.
class Checkpointer {
 public:
  /// `attachments`: recipe.yaml, config.json and, when there is one, tokenizer.model; kept with every save.
  Checkpointer(const CheckpointOptions& options, const RunFolder& folder, Communicator& comm,
               std::map<std::string, std::string> attachments);

  /// Brings `state` to the newest committed checkpoint, whatever world size wrote it. False when there is
  /// none. Throws Error(kCheckpoint) for a checkpoint of another model, Error(kData) for one of other data,
  /// Error(kUsage) when `resume` forbids or demands what is found.
  bool restore_latest(TrainState& state);

  /// Writes and commits `state`; returns the step folder. Throws Error(kCheckpoint) on every rank when any
  /// failed; the attempt is removed and older checkpoints are untouched.
  std::filesystem::path save(const TrainState& state);

  /// Is `step` one of the steps that are saved?
  [[nodiscard]] bool due(std::int64_t step) const;

 private:
  void write_and_commit(const TrainState& state, const std::filesystem::path& folder, const std::string& id);

  CheckpointOptions options_;
  const RunFolder* folder_;
  Communicator* comm_;
  std::map<std::string, std::string> attachments_;
};

}  // namespace echelon
