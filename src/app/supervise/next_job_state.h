#pragma once
#include <cstdint>
#include <string>

#include "app/supervise/options.h"

namespace echelon::supervise {

/// What a job does, from its start to its end or to its return to the queue. What follows each state; of the
/// conditions of a state the first that holds counts:
///
///   kStarting    a stop was requested                            kQueueing
///                2 starts in a row made no new checkpoint        kHeld
///                otherwise                                       kRunning
///   kRunning     ranks were lost, restarts are left, no stop     kLost
///                ranks were lost                                 kQueueing
///                ranks stopped early with a checkpoint (85)      kQueueing
///                they or srun failed (2 to 4, 71), a later start kQueueing
///                srun failed (71) and a stop was requested       kQueueing
///                otherwise                                       kEnded
///   kLost        max_same_step failures in a row at one step     kEnded, with exit code 6
///                more than 2 in a row at an unknown step         kQueueing
///                otherwise                                       kClearing
///   kClearing    a stop was requested                            kQueueing
///                enough nodes are clear                          kRunning
///                otherwise                                       kQueueing
///   kQueueing    Slurm has ended or requeued the job             kEnded
///                2 starts in a row made no new checkpoint        kHeld
///                requeues are left                               kRequeued
///                max_requeues is 0                               kEnded
///                otherwise                                       kHeld
enum class JobState : std::uint8_t {
  kStarting,  ///< the script runs, ranks do not yet
  kRunning,   ///< ranks run
  kLost,      ///< ranks were lost; is it worth starting them again?
  kClearing,  ///< nodes end what is left of the lost start, which also shows that they work
  kQueueing,  ///< the job cannot go on in place
  kRequeued,  ///< final: it is back in the queue under its number
  kHeld,      ///< final: it is in the queue until someone releases it
  kEnded,     ///< final
};

/// What srun ends with when it fails itself, such as with options that it refuses (SLURM_EXIT_ERROR; its own
/// default is 1).
inline constexpr int kSrunFailed = 71;

/// What a job's supervisor knows when a state ends. Each state looks at some of it.
struct JobFacts {
  int status = 0;                   ///< the highest exit code of the ranks; over 128: a signal
  std::string cause;                ///< as the ranks' own watch has told it; empty: it has not
  std::int64_t lost_step = 0;       ///< the step that was under way; 0: unknown
  bool stopping = false;            ///< a signal asks the job to stop
  std::int64_t restarts = 0;        ///< in place, in this start of the job
  std::int64_t requeues = 0;        ///< before this start of the job
  int failures_at_step = 0;         ///< in a row at lost_step, the last one included
  std::int64_t clear_nodes = 0;     ///< that ranks may start on
  std::int64_t wanted_nodes = 0;    ///< that the run had at first
  bool enough_nodes = false;        ///< for all ranks, or for as many as the run may continue with
  int fruitless_starts = 0;         ///< in a row, that made no new checkpoint
  std::int64_t committed_step = 0;  ///< of the newest checkpoint
  bool queued_by_slurm = false;     ///< the job no longer runs, as far as Slurm is concerned
};

struct NextState {
  JobState state = JobState::kEnded;
  int status = 0;    ///< the exit code so far
  std::string text;  ///< for the log or the reason of a hold; empty: nothing to tell

  friend bool operator==(const NextState&, const NextState&) = default;
};

/// Pure.
[[nodiscard]] NextState next_job_state(JobState state, const JobFacts& facts, const Options& limits);

/// Why a job whose ranks ended with `facts.status` is to run again: "lost a rank to signal 9". Empty: it is
/// not.
[[nodiscard]] std::string reason_to_go_on(const JobFacts& facts);

/// Does `status` mean that a rank, or the connection to it, was lost?
[[nodiscard]] bool is_loss(int status);

}  // namespace echelon::supervise
