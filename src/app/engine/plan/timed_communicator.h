#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "forecast/cpu_profile.h"

namespace echelon::app {

/// The times that a TimedCommunicator and those split from it write.
struct MessageTimes {
  std::map<std::string, std::vector<forecast::CpuProfile::Point>> points;  ///< by forecast::key_of()
  double seconds = 0;  ///< of the thread that trains, in all messages so far
};

/// Passes every operation on to `real`, and times how long the caller is held up by it, when it is issued and
/// when it is waited for. That time counts for no operation of book::Timing. `real` and `times` outlive it.
[[nodiscard]] std::unique_ptr<Communicator> make_timed_communicator(Communicator& real, MessageTimes& times);

}  // namespace echelon::app
