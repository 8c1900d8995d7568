#include "train/measure/memory_report.h"

#include <ATen/ATen.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/str.h"
#include "shard/memory/host_memory.h"

namespace echelon {
namespace {

/// The executable part of the memory that is not mapped from a file: code that libraries compiled at run time
/// (matrix products). Takes milliseconds.
std::int64_t compiled_code_bytes() {
  std::ifstream maps("/proc/self/smaps");
  std::int64_t kib = 0;
  bool counted = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string first;
    std::string access;
    std::string rest;
    words >> first >> access;
    if (first == "Rss:") {
      if (counted) kib += std::stoll(access);
    } else if (first.find('-') != first.npos) {  // "begin-end rwxp offset device inode path"
      std::string offset;
      std::string device;
      std::int64_t inode = -1;
      words >> offset >> device >> inode >> rest;
      counted = access.find('x') != access.npos && inode == 0 && rest != "[vdso]" && rest != "[vsyscall]";
    }
  }
  return kib * 1024;
}

}  // namespace

std::int64_t resident_bytes() {
  std::int64_t pages = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::int64_t peak_resident_bytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

MemoryReport memory_report(const TrainState& state) {
  MemoryReport report;
  for (const auto& unit : state.model.units()) {
    report.weights += static_cast<std::int64_t>(unit->master().nbytes());
    report.offloaded |= unit->master().is_cpu() && !state.model.device().is_cpu();
    report.gradients += static_cast<std::int64_t>(unit->gradient().nbytes());
  }
  for (const OptimizerState& kind : state.optim.states()) {
    for (const at::Tensor& slice : kind.slices) report.optimizer += static_cast<std::int64_t>(slice.nbytes());
  }
  if (state.ema != nullptr) {
    for (const at::Tensor& slice : state.ema->slices()) {
      report.averaged += static_cast<std::int64_t>(slice.nbytes());
    }
  }
  const BufferPool& pool = state.model.pool();
  report.gathered = pool.bytes(Use::kGathered);
  report.outgoing = pool.bytes(Use::kGradients);
  report.staging = pool.bytes(Use::kStaging);
  report.pool = pool.bytes_allocated();
  report.tensors_peak = HostMemory::peak_bytes();
  report.tensors_reserved = HostMemory::reserved_bytes();
  report.resident_peak = peak_resident_bytes();
  return report;
}

std::array<MemoryCategory, 9> categories(const MemoryReport& r, std::uint64_t device_bytes) {
  const bool on_host = device_bytes == 0;
  const std::int64_t tensors = on_host ? r.tensors_peak : static_cast<std::int64_t>(device_bytes);
  return {{{"weights", r.weights},
           {"gradients", r.gradients},
           {"optimizer", r.optimizer},
           {"averaged", r.averaged},
           {"gathered", r.gathered.peak},
           {"whole_gradients", r.outgoing.peak},
           {"staging", r.staging.peak},
           {"pool", r.pool},
           {"activations", tensors - r.pool - (r.offloaded ? 0 : r.persistent())}}};
}

std::string describe(const MemoryReport& r, bool peaks) {
  std::string line = str("memory of this rank: weights ", human_bytes(r.weights), ", gradients ",
                         human_bytes(r.gradients), ", optimizer ", human_bytes(r.optimizer));
  if (r.averaged > 0) line += str(", averaged weights ", human_bytes(r.averaged));
  if (!peaks) return str(line, "; together ", human_bytes(r.persistent()));
  return str(line, "; at most: gathered weights ", human_bytes(r.gathered.peak), ", whole gradients ",
             human_bytes(r.outgoing.peak), ", staging ", human_bytes(r.staging.peak), " (pool ",
             human_bytes(r.pool), "), activations and temporaries ", human_bytes(r.activations_peak()),
             "; all tensors ", human_bytes(r.tensors_peak), ", reserved ", human_bytes(r.tensors_reserved),
             "; code compiled for products ", human_bytes(compiled_code_bytes()), "; process ",
             human_bytes(r.resident_peak));
}

}  // namespace echelon
