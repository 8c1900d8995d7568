#include "base/process/cores.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace echelon {
namespace {

constexpr int kMostThreads = 4096;

int bound_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

std::optional<int> cores_of_quota(const std::string& cpu_max) {
  double quota = 0;
  double period = 0;
  std::istringstream text(cpu_max);
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<int>(std::clamp((quota + period - 1) / period, 1.0, 1e6));
}

int usable_cores() {
  std::string quota;
  std::ifstream file("/sys/fs/cgroup/cpu.max");  // a container sees its own group as the root
  std::getline(file, quota);
  return std::max(1, std::min(bound_cores(), cores_of_quota(quota).value_or(bound_cores())));
}

std::optional<int> threads_asked_for(const char* omp_num_threads) {
  if (omp_num_threads == nullptr) return std::nullopt;
  const std::string text = omp_num_threads;
  const auto first = text.find_first_not_of(" \t");
  if (first == text.npos) return std::nullopt;
  int threads = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + first, end, threads);
  const bool whole = read.ptr == end || *read.ptr == ',' || *read.ptr == ' ' || *read.ptr == '\t';
  if (read.ec != std::errc() || !whole || threads < 1 || threads > kMostThreads) return std::nullopt;
  return threads;
}

void let_idle_threads_sleep() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "1000", 0);
}

}  // namespace echelon
