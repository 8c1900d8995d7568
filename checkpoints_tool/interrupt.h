#pragma once
#include <string>

namespace echelon::tool {

/// Thrown out of long work after SIGINT, SIGTERM or SIGHUP, so that unfinished output is removed or kept in
/// order.
struct Interrupted {
  int signal = 0;
  std::string hint;  ///< how to go on, for the one line that is printed
};

/// Makes SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process; ignored signals stay ignored.
void watch_interrupts();
/// Throws Interrupted when one came.
void check_interrupt();
/// Ends the process by the signal itself, so that the caller's shell sees it.
[[noreturn]] void end_by_signal(int signal);

}  // namespace echelon::tool
