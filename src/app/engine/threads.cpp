#include "app/engine/threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>

#include "base/process/cores.h"

namespace echelon::app {

void set_threads(std::int64_t wanted, const JobInfo& job) {
  const int share = std::max(1, usable_cores() / job.local_size);
  const int chosen = threads_asked_for(std::getenv("OMP_NUM_THREADS")).value_or(share);
  at::set_num_threads(wanted > 0 ? static_cast<int>(wanted) : chosen);
}

}  // namespace echelon::app
