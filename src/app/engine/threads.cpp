#include "app/engine/threads.h"

#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>

namespace echelon::app {
namespace {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

void set_threads(std::int64_t wanted, const JobInfo& job) {
  const int share = std::max(1, usable_cores() / job.local_size);
  at::set_num_threads(wanted > 0 ? static_cast<int>(wanted) : share);
}

}  // namespace echelon::app
