#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

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

  /// Brings `state` to the newest committed checkpoint, whatever world size wrote it; passes over damaged
  /// ones with a warning. False when there is none. Throws Error(kCheckpoint) for a checkpoint of another
  /// model or when all are damaged, Error(kData) for one of other data, Error(kUsage) when `resume` forbids
  /// or demands what is found.
  bool restore_latest(TrainState& state);

  /// Writes and commits `state`; returns the step folder. Throws Error(kCheckpoint) on every rank when any
  /// failed; the attempt is removed and older checkpoints are untouched.
  std::filesystem::path save(const TrainState& state);

  /// Is `step` one of the steps that are saved?
  [[nodiscard]] bool due(std::int64_t step) const;

 private:
  /// Folders of all commits, newest first; only on the rank that looks.
  [[nodiscard]] std::vector<std::string> candidates() const;
  /// Restores from one folder. Returns how it is damaged; empty: restored.
  [[nodiscard]] std::string restore(const std::filesystem::path& folder, TrainState& state);
  /// Runs `body` on every rank; returns the first rank's Error(kCheckpoint), on every rank, or an empty text.
  [[nodiscard]] std::string failure_of(const std::function<void()>& body);
  void write_and_commit(const TrainState& state, const std::filesystem::path& folder, const std::string& id);

  CheckpointOptions options_;
  const RunFolder* folder_;
  Communicator* comm_;
  std::map<std::string, std::string> attachments_;
};

}  // namespace echelon
