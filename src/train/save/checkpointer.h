#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/options.h"
#include "checkpoint/write/rank_save.h"
#include "comm/communicator.h"
#include "run/run_folder.h"
#include "train/save/kept_best.h"
#include "train/save/next_action.h"
#include "train/save/save_interval.h"
#include "train/train_state.h"

namespace echelon {

/// Saves a TrainState as a rank-sharded checkpoint while training goes on. The geometry of the slices is
/// known to every rank, so nothing is planned between them; two small exchanges at the start of a save tell
/// them how the one before ended and that every disk has room. At most one save is in flight.
class Checkpointer {
 public:
  /// Called when this rank learns that a save of `step` is committed, `seconds` after it began.
  using OnSaved = std::function<void(std::int64_t step, double seconds)>;

  /// `attachments`: recipe.yaml, config.json and, when there is one, the tokenizer; kept with every save.
  Checkpointer(const CheckpointOptions& options, const RunFolder& folder, Communicator& comm,
               std::map<std::string, std::string> attachments, OnSaved on_saved = {});

  /// Finds room for the copy of the state, if a save before `last_step` can need one; it becomes memory
  /// beside training when such a save comes near. With keep_best a best validation whose checkpoint is gone
  /// is forgotten. Collective. Throws Error(kCheckpoint) when there is not enough memory.
  void prepare(TrainState& state, std::int64_t last_step);

  /// Is `step` one of those that every rank knows to be saved?
  [[nodiscard]] bool due(const TrainState& state) const;
  [[nodiscard]] bool due_by_step(std::int64_t step) const;
  /// Is a save due by this rank's clock? Only rank 0's answer counts.
  [[nodiscard]] bool due_by_time() const;

  /// Saves `state`. Collective. Returns when training may go on: after a copy in memory, or with
  /// checkpoint.async: false or `wait` when the save is committed. Left out, with a warning, while the one
  /// before is still being written a second later; with `wait`, and for a new best with keep_best, that is
  /// waited for first. A failed save is reported and older checkpoints are untouched; Error(kCheckpoint) on
  /// every rank when `wait`ing for it, and after checkpoint.max_failures in a row. With keep_best state.best
  /// is a best that is on the disk or on its way there: one that could not be saved is forgotten for the one
  /// before, so that the next better validation is saved.
  void save(TrainState& state, bool wait);

  /// Does training wait until a save is committed?
  [[nodiscard]] bool waits() const { return !options_.async; }
  /// Age of the save that is being written; nothing: none is.
  [[nodiscard]] std::optional<double> in_flight_s() const;

  /// Has this rank's part of the save in flight failed, and rank 0 waits for it as far as is known?
  [[nodiscard]] bool failed_here() const;
  /// Tells rank 0 why. Collective, after failed_here() on any rank: the disk that failed a rank's shard may
  /// have failed its note for rank 0, too, which would wait for checkpoint.timeout_s.
  void hear_of_failure();

  /// Until the save in flight has ended on every rank, but no longer than it may take. Collective.
  void wait_for_all();

  /// After each step: tells the log of rank 0 about a save that has ended since the last call, and begins to
  /// warm up memory for one that comes near. Local and quick.
  void poll(std::int64_t step);
  /// A validation begins: with keep_best a save may follow.
  void validation_begins();
  /// Memory that saves take on this rank by now.
  [[nodiscard]] std::uint64_t staging_bytes() const { return staging_ ? staging_->touched_bytes() : 0; }

 private:
  /// This rank's part of the newest save, until all ranks know what has become of it.
  struct InFlight {
    std::unique_ptr<checkpoint::RankSave> save;
    std::int64_t step = 0;
    std::filesystem::path folder;
    double began_s = 0;
    double stall_s = 0;
    std::optional<BestValidation> best;  ///< that it saves
    bool logged = false;                 ///< this rank's log has its end
    bool given_up = false;               ///< rank 0 knows of another rank's failure
  };
  /// What has become of the save of `step`.
  struct Ended {
    SaveOutcome outcome;
    std::int64_t step = 0;
  };
  [[nodiscard]] SaveReport report() const;
  /// Exchanges the reports; a save that has ended on all ranks is in flight no more. Collective.
  [[nodiscard]] Ended settle(TrainState& state);
  /// Starts the save on every rank, or on none: then its outcome is kFailed. Collective.
  [[nodiscard]] Ended start(TrainState& state, const std::string& id, bool waits);
  /// Counts, logs and throws as next_action() decides; a start and a save left out are the caller's.
  /// `step`: whose save is requested.
  [[nodiscard]] NextAction::Kind act_on(const Ended& last, SaveRequest request, std::int64_t step);
  [[nodiscard]] checkpoint::SavePlan plan(const TrainState& state, const std::filesystem::path& folder,
                                          const std::string& id) const;
  /// After a resume: forgets a best validation whose checkpoint is not there. Collective.
  void look_for_best(TrainState& state);
  void wait_for_end(double at_most_s) const;              ///< of this rank's part
  [[nodiscard]] bool must_copy(std::int64_t step) const;  ///< does training go on during a save after `step`?
  [[nodiscard]] bool comes_near(std::int64_t step);       ///< a save, after `step`
  void log_end();                                         ///< of this rank's part, once

  CheckpointOptions options_;
  const RunFolder* folder_;
  Communicator* comm_;
  std::map<std::string, std::string> attachments_;
  OnSaved on_saved_;
  std::shared_ptr<checkpoint::Staging> staging_;
  std::optional<checkpoint::ShardPlan> layout_;  ///< of every save: the slices are always the same
  std::optional<InFlight> in_flight_;
  KeptBest best_;
  std::int64_t last_step_ = 0;
  std::int64_t polled_step_ = 0;
  double polled_s_ = 0;
  SaveInterval interval_;
  std::int64_t failures_ = 0;            ///< in a row
  std::int64_t logged_failure_of_ = -1;  ///< step
};

}  // namespace echelon
