#pragma once
#include <cstdint>
#include <string>
#include <tuple>

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

}  // namespace echelon
