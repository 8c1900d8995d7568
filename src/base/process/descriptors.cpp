#include "base/process/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace echelon {

void allow_more_descriptors() {
  constexpr rlim_t kEnough = 65536;  // more would slow down libraries that close all they may have open
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kEnough) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kEnough));
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

bool is_kept_for_files(int fd) {
  constexpr rlim_t kKept = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  // The system gives the lowest free number: all below it are in use.
  return static_cast<rlim_t>(fd) >= limit.rlim_cur - std::min(kKept, limit.rlim_cur / 4);
}

}  // namespace echelon
