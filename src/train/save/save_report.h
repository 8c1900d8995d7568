#pragma once
#include <cstdint>
#include <string>

#include "bootstrap/job.h"

namespace echelon {

/// What one rank says of its part of the newest save when the ranks settle what has become of it.
struct SaveReport {
  enum class State : std::uint8_t {
    kNone,       ///< no save is in flight
    kWriting,    ///< within the time that a save may take
    kHanging,    ///< writing for longer than that
    kFailed,     ///< this rank's part is given up
    kDone,       ///< this rank's part is durable; of rank 0: the save is committed
    kUncertain,  ///< of rank 0: committed, but a loss of power may undo it
  };
  State state = State::kNone;
  std::string next_id;  ///< of rank 0, unless it is still writing: for a save that begins now
  std::string error;    ///< of kHanging and kFailed
};

/// How a report travels between the ranks.
[[nodiscard]] Blob encode(const SaveReport& report);
/// Throws Error(kPeer) for bytes that encode() does not make.
[[nodiscard]] SaveReport decode_save_report(const Blob& bytes);

}  // namespace echelon
