#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "train/save/save_report.h"

namespace echelon {

/// A save as all ranks see it. Its states and what leads from one to another:
///
///   kNone -> kWriting -> kCommitted | kUncertain | kFailed
///               |  ^             (final: a commit cannot be undone, and a failed save is not resumed)
///               v  |
///             kHanging
struct SaveOutcome {
  enum class State : std::uint8_t {
    kNone,       ///< there was none
    kWriting,    ///< on some rank
    kHanging,    ///< on some rank for longer than a save may take
    kFailed,     ///< its folder goes
    kUncertain,  ///< committed, but a loss of power may undo it
    kCommitted,
  };
  State state = State::kNone;
  std::string error;    ///< of kFailed and kHanging: that of the first rank that has one
  std::string doubt;    ///< of kUncertain, where a rank other than 0 doubts what rank 0 has committed
  std::string next_id;  ///< for a save that begins now; empty: none can

  [[nodiscard]] bool in_flight() const { return state == State::kWriting || state == State::kHanging; }
  [[nodiscard]] bool committed() const { return state == State::kUncertain || state == State::kCommitted; }
};

/// What has become of a save, from the reports of all ranks, by rank. The same on every rank.
[[nodiscard]] SaveOutcome outcome_of(const std::vector<SaveReport>& reports);

/// What the decision depends on beside the outcome.
struct SaveRequest {
  bool begins = true;             ///< a save is to begin now; false: `outcome` is that of the requested save
  bool final = false;             ///< it is the last one of the run: training does not go on without it
  std::int64_t failures = 0;      ///< saves in a row that have failed until now
  std::int64_t max_failures = 1;  ///< so many in a row end the run
};

/// What every rank does next.
struct NextAction {
  enum class Kind : std::uint8_t {
    kStart,             ///< begin the requested save
    kLeaveOut,          ///< training goes on without it: the one before is still in flight
    kGoOn,              ///< the requested save has ended, training goes on
    kStopLastInTheWay,  ///< throw: the final save cannot begin, because the one before is still in flight
    kStopFinalFailed,   ///< throw: the final save has failed
    kStopTooMany,       ///< throw: max_failures saves in a row have failed
  };
  Kind kind = Kind::kStart;
  bool report_failure = false;  ///< of the save of `outcome`, whatever follows
  std::int64_t failures = 0;    ///< saves in a row that have failed by now
};

/// Decides from the outcome of the newest save; the same on every rank. A save that hangs has failed and is
/// in the way of the next one.
[[nodiscard]] NextAction next_action(const SaveOutcome& outcome, const SaveRequest& request);

}  // namespace echelon
