#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "app/engine/forecast_check.h"
#include "base/not_copied.h"
#include "bootstrap/job.h"
#include "comm/communicator.h"
#include "liveness/life_watch.h"
#include "run/agreed_stop.h"
#include "run/deadline.h"
#include "run/ledger.h"
#include "run/run_folder.h"
#include "run/signals.h"
#include "run/start_times.h"
#include "train/memory/run_memory.h"
#include "train/save/checkpointer.h"
#include "train/train_state.h"

namespace echelon::app {

/// The objects that live as long as a rank: what can stop it, and what records its time. Members may use
/// members declared above them, which are destroyed later.
struct RankLife {
  const std::map<std::string, std::string>& origins;  ///< of the recipe's values
  StartTimes start;
  StopSignal signal;
  ProcessWatch watch;
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<Ledger> ledger = std::make_unique<Ledger>();  ///< rank 0 gets one with a file
  std::atomic<Ledger*> shared_ledger{
      nullptr};                             ///< of rank 0, for the thread of `peers`, which may run before it
  Deadline deadline{{}};                    ///< no end is known until training starts, and on other ranks
  std::unique_ptr<LifeWatch> peers;         ///< null: single rank, or heartbeats are off
  std::unique_ptr<ForecastCheck> forecast;  ///< rank 0 only
  /// Null on the CPU. Here, because its end waits for the ranks of the node: not while an error is on its
  /// way.
  std::unique_ptr<Communicator> between_devices;
  bool held = false;            ///< the run has a record, which this start must not touch yet
  bool waits_for_lead = false;  ///< at the end, until rank 0 has consolidated
  bool trains = false;          ///< the start succeeded: the run folder must be kept
};

/// If an error ends this rank's run, writes its memory use and the most recent collectives to its log. Create
/// it on the stack after everything that it describes.
class LastWords : NotCopied {
 public:
  /// `state` and `comm` must outlive this object.
  LastWords(const TrainState& state, const Communicator& comm);
  /// Writes only if destroyed by stack unwinding.
  ~LastWords();

 private:
  const TrainState& state_;
  const Communicator& comm_;
  int exceptions_;
};

/// Starts heartbeats between the ranks. Null for a single rank or if heartbeats are off. Collective.
[[nodiscard]] std::unique_ptr<LifeWatch> watch_peers(const ClusterOptions& cluster,
                                                     const std::filesystem::path& run_dir, Job& job,
                                                     RankLife& life);
/// Rank 0 only. Opens the account of the run's time, in the run folder.
void open_ledger(const Job& job, RankLife& life);
/// The start has become part of the run: its log, its time and its nodes are written into the run folder.
void begin_record(RankLife& life);

/// Records that saving `step` took `seconds`.
void note_save(RankLife& life, const Checkpointer::Saved& saved);
/// Records that what a checkpoint holds is loaded, and that the run continues from `step`.
void note_resumption(RankLife& life, std::int64_t step);
/// At the end of a complete run: the other ranks will wait for rank 0, which consolidates, where its lock can
/// tell them when it is done. Returns exit code 0. Collective.
[[nodiscard]] int agree_on_wait(Consolidate consolidate, Communicator& comm, RankLife& life);
/// Records the end of this start and logs the summary of time use.
void close_ledger(RankLife& life, int status);

/// Returns whether a stop was requested during initialization, and logs it. `done`: the phase just finished,
/// for the log. Collective.
[[nodiscard]] bool stops_after(const char* done, AgreedStop& stop);

/// Returns whether a stop was requested by the time the checkpoint was read, and logs it. `from`: the memory
/// of nodes that gave the state, or null. A step that came from there would not stay: it is committed if no
/// other one follows, and too little time for one is a stop. Otherwise that throws Error(kUsage). Collective.
[[nodiscard]] bool stops_before_training(const ClusterOptions& cluster, AgreedStop& stop,
                                         Checkpointer& checkpointer, TrainState& state, std::int64_t steps,
                                         RunMemory* from, Communicator& comm, RankLife& life);

/// Reports the error that ended this rank, once for all ranks, and aborts the ranks that may not have
/// noticed. Returns the exit code; with a device communicator it ends the process.
[[nodiscard]] int leave_after(const Error& error, Job& job, RankLife& life);

}  // namespace echelon::app
