#include "base/process/cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/str.h"

namespace echelon {
namespace {

constexpr int kMostThreads = 4096;
constexpr int kMostCores = 1 << 16;

/// A set of the cores below at least `cores`, as large as it must be: cpu_set_t has CPU_SETSIZE, 1024.
std::vector<cpu_set_t> set_of(int cores) {
  return std::vector<cpu_set_t>(static_cast<std::size_t>((cores + CPU_SETSIZE - 1) / CPU_SETSIZE));
}

std::size_t bytes_of(const std::vector<cpu_set_t>& set) {
  return set.size() * sizeof(cpu_set_t);
}

/// End of the run of consecutive numbers that begins at `begin`.
std::size_t run_end(const std::vector<int>& cores, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
  return end;
}

}  // namespace

std::vector<int> bound_cores() {
  std::vector<int> cores;
  for (int most = CPU_SETSIZE; most <= kMostCores; most *= 2) {
    std::vector<cpu_set_t> set = set_of(most);
    if (sched_getaffinity(0, bytes_of(set), set.data()) != 0) {
      if (errno == EINVAL) continue;  // the kernel's set is larger
      break;
    }
    for (int core = 0; core < most; ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes_of(set), set.data())) cores.push_back(core);
    }
    break;
  }
  return cores;
}

void bind_to(const std::vector<int>& cores) {
  const std::vector<int> allowed = bound_cores();
  if (allowed.empty()) return;
  std::vector<cpu_set_t> set = set_of(allowed.back() + 1);
  for (const int core : cores) {
    if (std::ranges::binary_search(allowed, core))
      CPU_SET_S(static_cast<std::size_t>(core), bytes_of(set), set.data());
  }
  if (CPU_COUNT_S(bytes_of(set), set.data()) > 0) (void)sched_setaffinity(0, bytes_of(set), set.data());
}

std::vector<int> cores_of_list(const std::string& list) {
  std::vector<int> cores;
  for (const std::string& part : split(list, ',')) {
    int first = 0;
    int last = 0;
    const int read = std::sscanf(part.c_str(), "%d-%d", &first, &last);  // NOLINT(cert-err34-c): counted
    if (read < 2) last = first;
    if (read < 1 || first < 0 || last < first || last >= kMostCores) return {};
    for (int core = first; core <= last; ++core) cores.push_back(core);
  }
  return cores;
}

std::string list_of_cores(const std::vector<int>& cores) {
  std::vector<std::string> runs;
  for (std::size_t begin = 0, end = 0; begin < cores.size(); begin = end) {
    end = run_end(cores, begin);
    runs.push_back(end == begin + 1 ? str(cores[begin]) : str(cores[begin], '-', cores[end - 1]));
  }
  return join(runs, ",");
}

std::vector<int> fair_share(const std::vector<std::vector<int>>& near, std::size_t index) {
  const std::vector<int>& cores = near[index];
  const auto turn = std::count(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(index), cores);
  const auto sharers = static_cast<std::size_t>(std::ranges::count(near, cores));
  std::size_t shortest = cores.size();
  for (std::size_t begin = 0; begin < cores.size(); begin = run_end(cores, begin))
    shortest = std::min(shortest, run_end(cores, begin) - begin);
  if (cores.size() < sharers) return cores;
  std::vector<int> share;
  for (std::size_t begin = 0; begin < cores.size();) {
    const std::size_t end = shortest < sharers ? cores.size() : run_end(cores, begin);
    const auto part = [&](std::ptrdiff_t of) {
      return cores.begin() +
             static_cast<std::ptrdiff_t>(begin + (end - begin) * static_cast<std::size_t>(of) / sharers);
    };
    share.insert(share.end(), part(turn), part(turn + 1));
    begin = end;
  }
  return share;
}

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
  const auto bound = static_cast<int>(bound_cores().size());
  return std::max(1, std::min(bound, cores_of_quota(quota).value_or(bound)));
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
