#include "checkpoints_tool/interrupt.h"

#include <csignal>
#include <cstdlib>

namespace echelon::tool {
namespace {

volatile std::sig_atomic_t g_signal = 0;  // static storage: a signal handler has no argument for its data
void note(int signal) {
  g_signal = signal;
}

}  // namespace

void watch_interrupts() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    // Ignored before: by nohup, or for a shell's background jobs.
    if (std::signal(number, note) == SIG_IGN) std::signal(number, SIG_IGN);
}

void check_interrupt() {
  if (g_signal != 0) throw Interrupted{g_signal, {}};
}

void end_by_signal(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::abort();  // not reached: the default of both signals ends the process
}

}  // namespace echelon::tool
