#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace echelon {

/// One rank's report on its part of the newest save, from which all ranks derive the outcome.
struct SaveReport {
  enum class State : std::uint8_t {
    kNone,       ///< no save is in flight
    kWriting,    ///< for at most checkpoint.timeout_s and a few seconds
    kHanging,    ///< writing for longer than that
    kFailed,     ///< this rank's part has failed or was given up
    kDone,       ///< this rank's part is durable; of rank 0: the save is committed
    kUncertain,  ///< of rank 0: committed, but a loss of power may undo it
  };
  State state = State::kNone;
  std::string next_id;  ///< from rank 0, unless it is still writing: id of a save that begins now
  std::string error;    ///< of kHanging and kFailed
  auto fields() { return std::tie(state, next_id, error); }
};

/// A save as all ranks see it. States and transitions:
///
///   kNone -> kWriting -> kCommitted | kUncertain | kFailed
///               |  ^             (final: a commit cannot be undone, and a failed save is not resumed)
///               v  |
///             kHanging
struct SaveOutcome {
  enum class State : std::uint8_t {
    kNone,       ///< no save was in flight
    kWriting,    ///< on some rank
    kHanging,    ///< on some rank for longer than checkpoint.timeout_s
    kFailed,     ///< not committed; its folder is removed
    kUncertain,  ///< committed, but a loss of power may undo it
    kCommitted,
  };
  State state = State::kNone;
  std::string error;    ///< of kFailed and kHanging: that of the first rank with an error
  std::string doubt;    ///< of kUncertain: the error of a rank that failed after rank 0 committed
  std::string next_id;  ///< id of a save that begins now; empty: none can begin

  [[nodiscard]] bool in_flight() const { return state == State::kWriting || state == State::kHanging; }
  [[nodiscard]] bool committed() const { return state == State::kUncertain || state == State::kCommitted; }
};

/// The outcome of a save, from the reports of all ranks in rank order. Pure, so it is the same on every rank.
[[nodiscard]] SaveOutcome outcome_of(const std::vector<SaveReport>& reports);

/// The inputs of the decision besides the outcome.
struct SaveRequest {
  bool begins = true;             ///< a save is to begin now; false: `outcome` is that of the requested save
  bool final = false;             ///< the last save of the run, which must not be skipped
  std::int64_t failures = 0;      ///< consecutive failed saves before this decision
  std::int64_t max_failures = 1;  ///< this many consecutive failures end the run
};

/// The action that every rank takes next.
struct NextAction {
  enum class Kind : std::uint8_t {
    kStart,             ///< begin the requested save
    kLeaveOut,          ///< skip the requested save, because the previous one is still in flight
    kGoOn,              ///< the requested save has ended, training goes on
    kStopLastInTheWay,  ///< throw: the final save cannot begin, because the previous one is still in flight
    kStopFinalFailed,   ///< throw: the final save has failed
    kStopTooMany,       ///< throw: max_failures saves in a row have failed
  };
  Kind kind = Kind::kStart;
  bool report_failure = false;  ///< log the failure of the save of `outcome`
  std::int64_t failures = 0;    ///< consecutive failed saves after this decision
};

/// Decides from the outcome of the newest save. Pure, so it is the same on every rank. A save that hangs
/// counts as failed, and also prevents the next one.
[[nodiscard]] NextAction next_action(const SaveOutcome& outcome, const SaveRequest& request);

}  // namespace echelon
