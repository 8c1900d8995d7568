#include "app/engine/threads.h"

#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/process/cores.h"
#include "shard/memory/host_memory.h"

namespace echelon::app {

void set_threads(std::int64_t wanted, const JobInfo& job) {
  const int share = std::max(1, usable_cores() / job.local_size);
  const int chosen = threads_asked_for(std::getenv("OMP_NUM_THREADS")).value_or(share);
  at::set_num_threads(wanted > 0 ? static_cast<int>(wanted) : chosen);
}

void keep_freed_memory() {
  HostMemory::install();
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace echelon::app
