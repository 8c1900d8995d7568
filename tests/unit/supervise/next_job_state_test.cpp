#include "app/supervise/next_job_state.h"

#include <gtest/gtest.h>

namespace echelon::supervise {
namespace {

using State = JobState;

TEST(NextJobState, IsTheOneOfTheTable) {
  const Options usual;
  const Options never_requeued{.max_requeues = 0};
  const Options never_restarted{.max_restarts = 0};
  const Options forgiving{.max_same_step = 0};
  const struct {
    State state;
    JobFacts facts;
    Options limits;
    NextState next;
  } table[] = {
      {State::kStarting, {.fruitless_starts = 1}, usual, {State::kRunning, 0, ""}},
      {State::kStarting,
       {.fruitless_starts = 2, .committed_step = 30},
       usual,
       {State::kHeld, 85, "2 starts in a row ended without a new checkpoint (the newest is of step 30)"}},

      {State::kStarting, {.stopping = true, .fruitless_starts = 2}, usual, {State::kQueueing, 85, ""}},
      {State::kRunning, {.status = 0}, usual, {State::kEnded, 0, ""}},
      {State::kRunning, {.status = 5}, usual, {State::kEnded, 5, ""}},
      {State::kRunning, {.status = 85}, usual, {State::kQueueing, 85, ""}},
      {State::kRunning, {.status = 7}, usual, {State::kLost, 7, ""}},
      {State::kRunning, {.status = 137}, usual, {State::kLost, 137, ""}},
      {State::kRunning, {.status = 7, .stopping = true}, usual, {State::kQueueing, 7, ""}},
      {State::kRunning, {.status = 7, .restarts = 19}, usual, {State::kLost, 7, ""}},
      {State::kRunning, {.status = 7, .restarts = 20}, usual, {State::kQueueing, 7, ""}},
      {State::kRunning, {.status = 7}, never_restarted, {State::kQueueing, 7, ""}},
      // The kernel ended a rank for lack of memory: srun says 1 whatever the others end with.
      {State::kRunning, {.status = 1}, usual, {State::kLost, 1, ""}},
      {State::kRunning, {.status = 1, .stopping = true}, usual, {State::kQueueing, 1, ""}},
      {State::kRunning, {.status = 1}, never_restarted, {State::kQueueing, 1, ""}},
      // srun itself fails with 71, and the trainer with 3: in place, the nodes may be at fault.
      {State::kRunning, {.status = 71}, usual, {State::kEnded, 71, ""}},
      {State::kRunning, {.status = 255}, usual, {State::kEnded, 255, ""}},
      {State::kRunning, {.status = 71, .stopping = true}, usual, {State::kQueueing, 71, ""}},
      {State::kRunning, {.status = 71, .restarts = 1}, usual, {State::kQueueing, 71, ""}},
      {State::kRunning, {.status = 2, .stopping = true}, usual, {State::kEnded, 2, ""}},
      {State::kRunning, {.status = 3, .restarts = 1}, usual, {State::kQueueing, 3, ""}},
      {State::kRunning, {.status = 3, .requeues = 1}, usual, {State::kQueueing, 3, ""}},
      {State::kRunning, {.status = 5, .restarts = 1}, usual, {State::kEnded, 5, ""}},
      {State::kRunning, {.status = 5, .requeues = 1}, usual, {State::kEnded, 5, ""}},

      {State::kLost, {.status = 7, .lost_step = 7, .failures_at_step = 2}, usual, {State::kClearing, 7, ""}},
      {State::kLost,
       {.status = 7, .cause = "rank 1 has died", .lost_step = 7, .failures_at_step = 3},
       usual,
       {State::kEnded, 6,
        "ends: step 7 failed 3 times in a row, so it is the code or the data; the last time: rank 1 has "
        "died"}},
      {State::kLost,
       {.status = 7, .lost_step = 7, .failures_at_step = 9},
       forgiving,
       {State::kClearing, 7, ""}},
      {State::kLost, {.status = 137, .failures_at_step = 2}, usual, {State::kClearing, 137, ""}},
      {State::kLost,
       {.status = 137, .failures_at_step = 3},
       usual,
       {State::kQueueing, 137,
        "lost ranks 3 times in a row, at an unknown step and without a new checkpoint"}},

      {State::kClearing, {.status = 7, .enough_nodes = true}, usual, {State::kRunning, 7, ""}},
      {State::kClearing,
       {.status = 7, .stopping = true, .enough_nodes = true},
       usual,
       {State::kQueueing, 7, ""}},
      {State::kClearing,
       {.status = 7, .clear_nodes = 1, .wanted_nodes = 3},
       usual,
       {State::kQueueing, 7, "has too few fit nodes to start again in place: 1 of 3"}},

      {State::kQueueing, {.status = 85, .queued_by_slurm = true}, usual, {State::kEnded, 85, ""}},
      {State::kQueueing, {.status = 85}, usual, {State::kRequeued, 85, "stopped after a checkpoint"}},
      {State::kQueueing,
       {.status = 137, .requeues = 99},
       usual,
       {State::kRequeued, 137, "lost a rank to signal 9"}},
      {State::kQueueing,
       {.status = 1},
       usual,
       {State::kRequeued, 1, "lost a rank, probably to a lack of memory"}},
      {State::kQueueing,
       {.status = 7, .fruitless_starts = 2},
       usual,
       {State::kHeld, 85, "2 starts in a row ended without a new checkpoint (the newest is of step 0)"}},
      {State::kQueueing,
       {.status = 7, .requeues = 100},
       usual,
       {State::kHeld, 7, "it was requeued 100 times, which is the limit"}},
      {State::kQueueing,
       {.status = 7},
       never_requeued,
       {State::kEnded, 7, "lost a rank or the connection to it; submit it again to continue"}},

      {State::kEnded, {.status = 7}, usual, {State::kEnded, 7, ""}},
      {State::kHeld, {.status = 85}, usual, {State::kHeld, 85, ""}},
      {State::kRequeued, {.status = 85}, usual, {State::kRequeued, 85, ""}},
  };
  int row_number = 0;
  for (const auto& row : table) {
    const NextState next = next_job_state(row.state, row.facts, row.limits);
    EXPECT_EQ(next, row.next) << "row " << row_number << ": state " << static_cast<int>(next.state)
                              << ", code " << next.status << ", '" << next.text << "'";
    ++row_number;
  }
}

}  // namespace
}  // namespace echelon::supervise
