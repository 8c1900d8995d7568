#include "book/stopwatch.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#include "base/steady_time.h"

namespace echelon::book::stopwatch {
namespace {

thread_local double ended_s = 0;
thread_local double set_aside_s = 0;
/// When the latest work ended for which all threads waited.
std::atomic<double> all_ended_s = 0;

}  // namespace

void restart() {
  all_ended_s = steady_now_s();
}

double since_previous(double now_s) {
  const double all_s = all_ended_s.load(std::memory_order_relaxed);
  if (all_s > ended_s) return std::max(0.0, now_s - all_s);
  return std::max(0.0, now_s - ended_s - set_aside_s);
}

void ended() {
  ended_s = steady_now_s();
  set_aside_s = 0;
  if (!c10::ParallelGuard::is_enabled()) all_ended_s.store(ended_s, std::memory_order_relaxed);
}

void set_aside(double seconds) {
  set_aside_s += seconds;
}

double aside_s() {
  return set_aside_s;
}

}  // namespace echelon::book::stopwatch
