#include "run/signals.h"

#include <unistd.h>

#include <csignal>

namespace echelon {
namespace {

// A signal handler has no argument for its data, hence static storage.
volatile std::sig_atomic_t received = 0;
volatile std::sig_atomic_t from_keyboard = 0;
volatile std::sig_atomic_t report_requested = 0;

constexpr auto& kSignals = StopSignal::kSignals;
std::array<struct sigaction, kSignals.size()> previous;

void on_signal(int signal) {
  if (signal == SIGINT || signal == SIGQUIT) {
    // _exit() is async-signal-safe, exit() is not.
    if (from_keyboard != 0) _exit(128 + signal);
    from_keyboard = 1;
  }
  received = signal;
}

struct sigaction calling(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // does not interrupt libraries' calls; the flags are polled every step
  sigemptyset(&action.sa_mask);
  return action;
}

/// Makes on_signal() the handler of kSignals[i]. A SIGHUP that was ignored stays so.
void install(std::size_t i) {
  const struct sigaction action = calling(on_signal);
  const bool stays = kSignals[i] == SIGHUP && previous[i].sa_handler == SIG_IGN;
  sigaction(kSignals[i], stays ? &previous[i] : &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  received = 0;
  from_keyboard = 0;
  sigset_t held;
  sigemptyset(&held);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &previous[i]);
    install(i);
    sigaddset(&held, kSignals[i]);
  }
  // A parent may have left these signals blocked, and masks are inherited through exec.
  pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
}

StopSignal::~StopSignal() {
  if (!restores_) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous[i], nullptr);
}

void StopSignal::take_back() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) install(i);
}

const char* StopSignal::requested() const {
  switch (received) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGUSR2: return "SIGUSR2";
    case SIGHUP: return "SIGHUP";
    case SIGQUIT: return "SIGQUIT";
    default: return nullptr;
  }
}

void StopSignal::ignore_further() {
  restores_ = false;
  for (const int number : kSignals) std::signal(number, SIG_IGN);
}

ReportRequest::ReportRequest() {
  report_requested = 0;
  const struct sigaction action = calling([](int /*signal*/) { report_requested = 1; });
  sigaction(SIGUSR1, &action, &previous_);
}

ReportRequest::~ReportRequest() {
  sigaction(SIGUSR1, &previous_, nullptr);
}

bool ReportRequest::take() {
  const bool came = report_requested != 0;
  report_requested = 0;
  return came;
}

}  // namespace echelon
