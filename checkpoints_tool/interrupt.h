#pragma once
#include <string>

namespace echelon::tool {

/// Thrown out of long work after SIGINT, SIGTERM or SIGHUP, so that unfinished output is removed or kept in
/// order.
struct Interrupted {
  int signal = 0;
  std::string hint;  ///< how to go on, for the one line that is printed
};

/// From now on SIGINT, SIGTERM and SIGHUP are noted instead of ending the process; what is ignored stays so.
void watch_interrupts();
/// Throws Interrupted when one came.
void check_interrupt();
/// Ends the process by the signal itself, so that the caller's shell sees it.
[[noreturn]] void end_by_signal(int signal);

}  // namespace echelon::tool
