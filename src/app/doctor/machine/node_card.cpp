#include "app/doctor/machine/node_card.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "app/devices.h"
#include "app/doctor/machine/folder_probe.h"
#include "app/engine/engine.h"
#include "app/plugin.h"
#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/process/cores.h"
#include "base/process/process.h"
#include "base/str.h"
#include "comm/mpi/mpi_worker.h"

namespace echelon::app::doctor {
namespace {

constexpr std::uint64_t kProgramBytes = std::uint64_t{1} << 30;

/// Identifies the build: two builds of one version may differ.
std::string program_sum() {
  try {
    const std::string bytes = fs::read_file(own_program(), kProgramBytes, Code::kEnvironment);
    return str(crc32c(bytes));
  } catch (const Error&) {
    return "unknown";
  }
}

/// Loads the engine, so that a node that cannot load it is reported before any measurement.
std::string engine_version() {
  try {
    return engine_function<VersionFunction>("echelon_engine_versions")();
  } catch (const Error& error) {
    return str("none (", printable(error.what(), 160), ")");
  }
}

RoomFacts room_in(const std::filesystem::path& folder) {
  RoomFacts facts;
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) == 0)
    facts.available_bytes = std::uint64_t{info.f_bavail} * info.f_frsize;
  try {
    const fs::NewFolder probe(folder / kProbe, Code::kEnvironment);
    fs::publish_file(probe.path() / "probe", std::string(std::size_t{1} << 16, 'x'), Code::kEnvironment);
  } catch (const Error& error) {
    facts.fault = printable(error.what(), 400);
  }
  return facts;
}

/// EFA devices are RDMA devices with Amazon's PCI vendor id.
int count_efa(const Machine& machine) {
  int count = 0;
  for (const std::string& name : machine.names("/sys/class/infiniband"))
    if (machine.text("/sys/class/infiniband/" + name + "/device/vendor") == "0x1d0f") ++count;
  return count;
}

bool can_load(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return false;
  dlclose(handle);
  return true;
}

void look_at_node(const Machine& machine, NodeCard& card) {
  card.memory_bytes = machine.meminfo("MemTotal").value_or(0);
  card.instance = machine.text("/sys/devices/virtual/dmi/id/product_name").value_or("");
  card.efa_devices = count_efa(machine);
  struct rlimit limit {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) card.locked_memory = limit.rlim_cur;
  if (card.efa_devices > 0) card.ofi_plugin = can_load("libnccl-net.so") || can_load("libnccl-net-ofi.so");
  for (const char* name : {"FI_PROVIDER", "RDMAV_FORK_SAFE"})
    card.environment[name] = environment_variable(name);
  Gpus gpus = ask_gpus();
  card.gpus = std::move(gpus.cards);
  card.gpu_note = gpus.note;
  if (card.gpus.empty())
    for (const std::string& name : find_driver().gpus) card.gpus.push_back({.name = name});
  card.shm = room_in(machine.at("/dev/shm"));
  card.tmp = room_in(machine.at("/tmp"));
}

}  // namespace

NodeCard make_card(const Machine& machine, const JobInfo& info) {
  NodeCard card{
      .host = info.host, .node = info.node, .local_rank = info.local_rank, .local_size = info.local_size};
  card.versions = {{"echelon", str(ECHELON_VERSION, " (build ", program_sum(), ")")},
                   {"engine", engine_version()},
                   {"pmix", pmix_version()},
                   {"pmix_server", environment_variable("PMIX_VERSION")},
                   {"mpi", mpi_library_version()},
                   {"nccl", find_nccl()},
                   {"driver", find_driver().state},
                   {"kernel", machine.text("/proc/sys/kernel/osrelease").value_or("unknown")}};
  card.cores = list_of_cores(bound_cores());
  if (info.local_rank == 0) look_at_node(machine, card);
  return card;
}

}  // namespace echelon::app::doctor
