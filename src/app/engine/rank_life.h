#pragma once
#include <memory>

#include "bootstrap/job.h"
#include "liveness/life_watch.h"
#include "recipe/recipe.h"
#include "run/agreed_stop.h"
#include "run/deadline.h"
#include "run/ledger.h"
#include "run/run_folder.h"
#include "run/stop_signal.h"
#include "train/train_state.h"

namespace echelon::app {

/// What lasts from the first line of a rank to its last: how it may be ended, from inside and outside, and
/// what is noted of it. What stands below may use what stands above.
struct RankLife {
  StopSignal signal;
  ProcessWatch watch;
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<Ledger> ledger;      ///< rank 0's, as soon as there is a folder; the others' are null
  std::unique_ptr<Deadline> deadline;  ///< as the ledger
  std::unique_ptr<LifeWatch> peers;    ///< null: a single rank, or no heartbeats
  bool trains = false;                 ///< the run folder holds a run, and not only an attempt to start one
};

/// Heartbeats between the ranks, from now on; null where none are wanted. Collective.
[[nodiscard]] std::unique_ptr<LifeWatch> watch_peers(const Recipe& recipe, const Job& job, Communicator& comm,
                                                     RankLife& life);

/// Rank 0: until when the run may last, from all who know.
[[nodiscard]] std::unique_ptr<Deadline> make_deadline(const ClusterOptions& options, const TrainState& state,
                                                      const Ledger& ledger);
/// Rank 0: `step` is saved, after so long.
void note_save(RankLife& life, std::int64_t step, double seconds);
/// Rank 0: the run goes on from `step`.
void note_resumption(Ledger& ledger, std::int64_t step);
/// The last word on where the time went.
void close_ledger(RankLife& life, int status);

/// Is the run to stop before its first step? Nothing has changed that would have to be saved. Collective.
[[nodiscard]] bool stops_after(const char* done, AgreedStop& stop);

/// Reports what ended this rank, once among all ranks, ends those that may not know, and returns the exit
/// code.
[[nodiscard]] int leave_after(const Error& error, Job& job, RankLife& life);

}  // namespace echelon::app
