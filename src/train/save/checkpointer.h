#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/folder/owner.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/options.h"
#include "checkpoint/write/rank_save.h"
#include "comm/communicator.h"
#include "run/run_folder.h"
#include "train/save/kept_best.h"
#include "train/save/next_action.h"
#include "train/save/save_interval.h"
#include "train/train_state.h"

namespace echelon {

/// Saves a TrainState as a sharded checkpoint while training goes on. Every rank knows the geometry of all
/// slices, so no plan is exchanged. Two small exchanges at the start of a save tell all ranks how the
/// previous save ended, and that every disk has room. At most one save is in flight. Used by the training
/// thread only.
class Checkpointer {
 public:
  /// This rank's part of a save that is complete (on rank 0: committed).
  struct Saved {
    std::int64_t step = 0;
    double began_s = 0;   ///< steady_now_s()
    double seconds = 0;   ///< since it began
    double stall_s = 0;   ///< for which training waited
    bool waited = false;  ///< until it was complete
  };
  /// Called when this rank learns of it.
  using OnSaved = std::function<void(const Saved&)>;

  /// `attachments`: files of every checkpoint: recipe.yaml, config.json, a tokenizer. `known`: what the start
  /// found out about the run's commits. `folder` and `comm` must outlive this object.
  Checkpointer(const CheckpointOptions& options, const RunFolder& folder, Communicator& comm,
               std::map<std::string, std::string> attachments, OnSaved on_saved = {},
               checkpoint::KnownSteps known = {});

  /// Makes this run the owner of the checkpoints folder. Reserves address space for the copy of the state, if
  /// a save before `last_step` may need one; memory is allocated shortly before such a save. With keep_best,
  /// drops a best validation whose checkpoint no longer exists. Collective. Throws Error(kCheckpoint) if
  /// there is not enough memory.
  void prepare(TrainState& state, std::int64_t last_step);

  /// True if a save of the current step is due for a reason that every rank knows (steps, a new best).
  [[nodiscard]] bool due(const TrainState& state) const;
  [[nodiscard]] bool due_by_step(std::int64_t step) const;
  /// True if a save is due by this rank's clock. Only rank 0's answer is used.
  [[nodiscard]] bool due_by_time() const;

  /// Saves `state`. Collective. Returns when training may go on: after the copy to memory, or, with `wait` or
  /// checkpoint.async: false, after the commit. If the previous save is still being written after one more
  /// second, this one is skipped with a warning. With `wait`, or for a new best with keep_best, it waits for
  /// the previous save instead. A failed save is logged; older checkpoints are unchanged. Throws
  /// Error(kCheckpoint) on every rank if the save fails with `wait`, and after checkpoint.max_failures
  /// failures in a row. With keep_best, state.best refers to a checkpoint that is saved or in flight: if a
  /// best could not be saved, it reverts to the previous one.
  void save(TrainState& state, bool wait);

  [[nodiscard]] bool waits() const { return !options_.async; }  ///< always, until a save is committed
  [[nodiscard]] std::optional<double> in_flight_s() const;      ///< age of the save that is written, if any

  /// True if this rank's part of the save in flight has failed and rank 0 may still be waiting for it.
  [[nodiscard]] bool failed_here() const;
  /// Tells rank 0 the cause, so that it gives the save up. Collective; required after failed_here() on any
  /// rank. The disk may also have failed the rank's note, for which rank 0 would wait until its timeout.
  void hear_of_failure();

  /// Waits until the save in flight has ended on every rank, at most slightly longer than
  /// checkpoint.timeout_s. Collective.
  void wait_for_all();

  /// Tells all ranks how the save in flight has ended; known() and state.best are then up to date. Returns
  /// false while any rank is writing it. Collective.
  [[nodiscard]] bool hear_of_end(TrainState& state);
  [[nodiscard]] const checkpoint::KnownSteps& known() const { return known_; }  ///< commits on disk

  /// Call after each step. Logs a save that has ended since the last call, and starts to allocate memory for
  /// a save that is due soon. Local; does not block.
  void poll(std::int64_t step);
  /// Call when a validation begins: with keep_best, allocates memory for the save that may follow.
  void validation_begins();
  /// The bytes that saves have allocated on this rank so far.
  [[nodiscard]] std::uint64_t staging_bytes() const { return staging_ ? staging_->touched_bytes() : 0; }
  /// The memory of saves, for checkpoints in memory: free while hear_of_end() is true.
  [[nodiscard]] const std::shared_ptr<checkpoint::Staging>& staging() const { return staging_; }

 private:
  /// This rank's part of the newest save, until all ranks know how it ended.
  struct InFlight {
    std::unique_ptr<checkpoint::RankSave> save;
    std::int64_t step = 0;
    std::filesystem::path folder;
    double began_s = 0;
    double before_s = 0;  ///< from then to the creation of `save`
    double stall_s = 0;
    bool waited = false;                 ///< training waits until it is complete
    std::optional<BestValidation> best;  ///< the best validation that it saves, if any
    bool logged = false;                 ///< its end has been logged on this rank
    bool given_up = false;               ///< rank 0 knows of a failure
    [[nodiscard]] double age_s() const { return before_s + save->age_s(); }  ///< pauses left out
  };
  /// Outcome of the save of `step`.
  struct Ended {
    SaveOutcome outcome;
    std::int64_t step = 0;
  };
  [[nodiscard]] bool is_late() const;  ///< does the save in flight count as hanging?
  [[nodiscard]] SaveReport report() const;
  /// Exchanges the reports. A save that has ended on all ranks is then no longer in flight. Collective.
  [[nodiscard]] Ended settle(TrainState& state);
  /// Starts the save on every rank, or on none; the outcome is then kFailed. Collective.
  [[nodiscard]] Ended start(TrainState& state, const std::string& id, bool waits);
  /// Counts, logs and throws as next_action() decides of saving `step`; the caller starts it or leaves it
  /// out.
  [[nodiscard]] NextAction::Kind act_on(const Ended& last, SaveRequest request, std::int64_t step);
  [[nodiscard]] checkpoint::SavePlan plan(const TrainState& state, const std::filesystem::path& folder,
                                          const std::string& id) const;
  /// Drops a best validation whose checkpoint does not exist. Call it after a resume. Collective.
  void look_for_best(TrainState& state);
  [[nodiscard]] bool comes_near(std::int64_t step);  ///< is a save due soon after `step`?
  void log_end();                                    ///< of this rank's part, once

  CheckpointOptions options_;
  const RunFolder* folder_;
  Communicator* comm_;
  std::map<std::string, std::string> attachments_;
  OnSaved on_saved_;
  checkpoint::KnownSteps known_;
  std::shared_ptr<const checkpoint::Owner> owner_;  ///< rank 0
  std::shared_ptr<checkpoint::Staging> staging_;
  std::optional<checkpoint::ShardPlan> layout_;  ///< reused for every save, because the slices never change
  std::optional<InFlight> in_flight_;
  std::optional<Ended> heard_;  ///< by hear_of_end(): the next save acts on it
  KeptBest best_;
  std::int64_t last_step_ = 0;
  std::int64_t polled_step_ = 0;
  double polled_s_ = 0;
  SaveInterval interval_;
  std::int64_t failures_ = 0;            ///< in a row
  std::int64_t logged_failure_of_ = -1;  ///< step
};

}  // namespace echelon
