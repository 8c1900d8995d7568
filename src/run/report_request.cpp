#include "run/report_request.h"

#include <csignal>

namespace echelon {
namespace {

// A signal handler has no argument for its data, hence static storage.
volatile std::sig_atomic_t requested = 0;
struct sigaction previous;

void on_signal(int /*signal*/) {
  requested = 1;
}

}  // namespace

ReportRequest::ReportRequest() {
  requested = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR1, &action, &previous);
}

ReportRequest::~ReportRequest() {
  sigaction(SIGUSR1, &previous, nullptr);
}

bool ReportRequest::take() {
  const bool came = requested != 0;
  requested = 0;
  return came;
}

}  // namespace echelon
