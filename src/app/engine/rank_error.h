#pragma once
#include <string>

#include "base/error.h"
#include "bootstrap/job.h"

namespace echelon::app {

/// The exception in flight as an Error. Call only inside a catch block. `out_of_memory`: the text to use if
/// memory ran out.
[[nodiscard]] Error current_error(const char* out_of_memory);

/// Ends the process after an error, without destructors: that of a device communicator waits for the ranks of
/// the node, which may be stopped, or wait for this one.
[[noreturn]] void end_process(int status);

/// "rank 1/4 node-3": prefix of this rank's errors.
[[nodiscard]] std::string where(const Job& job);

}  // namespace echelon::app
