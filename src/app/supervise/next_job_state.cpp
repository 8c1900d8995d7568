#include "app/supervise/next_job_state.h"

#include "base/error.h"
#include "base/str.h"

namespace echelon::supervise {
namespace {

constexpr int kRequeueCode = static_cast<int>(Code::kRequeue);
/// No rank ends with 1: it is what srun makes of all ranks' codes and signals when the kernel has ended one
/// of them for lack of memory. Srun also has it where a node cannot start a task.
constexpr int kOutOfMemory = 1;
constexpr int kMostFailuresAtUnknownStep = 2;
constexpr int kMostFruitlessStarts = 1;

/// 255 is srun's where it does not know an option.
bool is_signal(int status) {
  return status > 128 && status < 255;
}

bool is_fruitless(const JobFacts& facts) {
  return facts.fruitless_starts > kMostFruitlessStarts;
}

NextState held_as_fruitless(const JobFacts& facts) {
  return {
      JobState::kHeld, kRequeueCode,
      str(facts.fruitless_starts, " starts in a row ended without a new checkpoint (the newest is of step ",
          facts.committed_step, ")")};
}

NextState after_running(const JobFacts& facts, const Options& limits) {
  const bool restarts_are_left = limits.max_restarts > 0 && facts.restarts < limits.max_restarts;
  if (is_loss(facts.status) && restarts_are_left && !facts.stopping)
    return {JobState::kLost, facts.status, ""};
  const bool goes_on = !reason_to_go_on(facts).empty();
  return {goes_on ? JobState::kQueueing : JobState::kEnded, facts.status, ""};
}

NextState after_loss(const JobFacts& facts, const Options& limits) {
  const int failures = facts.failures_at_step;
  if (facts.lost_step > 0 && limits.max_same_step > 0 && failures >= limits.max_same_step)
    return {JobState::kEnded, static_cast<int>(Code::kTraining),
            str("ends: step ", facts.lost_step, " failed ", failures,
                " times in a row, so it is the code or the data; the last time: ", facts.cause)};
  if (facts.lost_step == 0 && failures > kMostFailuresAtUnknownStep)
    return {JobState::kQueueing, facts.status,
            str("lost ranks ", failures, " times in a row, at an unknown step and without a new checkpoint")};
  return {JobState::kClearing, facts.status, ""};
}

NextState after_clearing(const JobFacts& facts) {
  if (facts.stopping) return {JobState::kQueueing, facts.status, ""};
  if (facts.enough_nodes) return {JobState::kRunning, facts.status, ""};
  return {
      JobState::kQueueing, facts.status,
      str("has too few fit nodes to start again in place: ", facts.clear_nodes, " of ", facts.wanted_nodes)};
}

/// Only a job that still runs requeues itself. One that Slurm preempted comes back without us, and one that
/// its owner cancelled must not come back.
NextState after_queueing(const JobFacts& facts, const Options& limits) {
  const std::string reason = reason_to_go_on(facts);
  if (facts.queued_by_slurm) return {JobState::kEnded, facts.status, ""};
  if (is_fruitless(facts)) return held_as_fruitless(facts);
  if (facts.requeues < limits.max_requeues) return {JobState::kRequeued, facts.status, reason};
  if (limits.max_requeues == 0)
    return {JobState::kEnded, facts.status, reason + "; submit it again to continue"};
  return {JobState::kHeld, facts.status,
          str("it was requeued ", facts.requeues, " times, which is the limit")};
}

}  // namespace

bool is_loss(int status) {
  return status == static_cast<int>(Code::kPeer) || status == kOutOfMemory || is_signal(status);
}

std::string reason_to_go_on(const JobFacts& facts) {
  const int status = facts.status;
  if (status == kRequeueCode) return "stopped after a checkpoint";
  // A rank that a signal ended hides the others' 7, because srun returns the highest code.
  if (is_signal(status)) return str("lost a rank to signal ", status - 128);
  if (status == kOutOfMemory) return "lost a rank, probably to a lack of memory";
  if (is_loss(status)) return "lost a rank or the connection to it";
  // What may be wrong with nodes that are new to the run, which a requeue may leave out.
  const bool in_place = facts.restarts > 0;
  if (facts.stopping && status == kSrunFailed) return "was stopped before its ranks ran";
  if ((in_place || facts.requeues > 0) && ((status >= 2 && status <= 4) || status == kSrunFailed))
    return str("could not go on", in_place ? " in place" : "", " (exit code ", status, ")");
  return "";
}

NextState next_job_state(JobState state, const JobFacts& facts, const Options& limits) {
  switch (state) {
    case JobState::kStarting:
      if (facts.stopping) return {JobState::kQueueing, kRequeueCode, ""};
      return is_fruitless(facts) ? held_as_fruitless(facts) : NextState{JobState::kRunning, 0, ""};
    case JobState::kRunning: return after_running(facts, limits);
    case JobState::kLost: return after_loss(facts, limits);
    case JobState::kClearing: return after_clearing(facts);
    case JobState::kQueueing: return after_queueing(facts, limits);
    case JobState::kRequeued:
    case JobState::kHeld:
    case JobState::kEnded: break;
  }
  return {state, facts.status, ""};
}

}  // namespace echelon::supervise
