#include "train/stop_signal.h"

#include <unistd.h>

#include <array>
#include <csignal>

namespace echelon {
namespace {

// A signal handler can reach nothing but a variable of static storage.
volatile std::sig_atomic_t received = 0;

constexpr std::array<int, 3> kSignals{SIGTERM, SIGINT, SIGUSR2};
std::array<struct sigaction, kSignals.size()> previous;

void on_signal(int signal) {
  if (signal == SIGINT && received == SIGINT) _exit(128 + SIGINT);
  received = signal;
}

}  // namespace

StopSignal::StopSignal() {
  received = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // blocking calls of libraries go on; the flag is polled once a step
  sigemptyset(&action.sa_mask);
  sigset_t held;
  sigemptyset(&held);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &previous[i]);
    sigaddset(&held, kSignals[i]);
  }
  pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
}

StopSignal::~StopSignal() {
  if (!restores_) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous[i], nullptr);
}

const char* StopSignal::requested() const {
  switch (received) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR2:
      return "SIGUSR2";
    default:
      return nullptr;
  }
}

void StopSignal::ignore_further() {
  restores_ = false;
  for (const int number : kSignals) std::signal(number, SIG_IGN);
}

}  // namespace echelon
