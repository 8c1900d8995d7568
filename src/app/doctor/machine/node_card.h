#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/doctor/machine/gpus.h"
#include "app/doctor/machine/machine.h"
#include "bootstrap/job.h"

namespace echelon::app::doctor {

/// Room in a folder that each node has for itself (/dev/shm, /tmp).
struct RoomFacts {
  std::string fault;  ///< why no file can be written, or ""
  std::uint64_t available_bytes = 0;
};

/// Facts about one rank and its node, small enough for a PMIx exchange. Only the first rank of a node fills
/// the node's fields.
struct NodeCard {
  std::string host;
  int node = 0;
  int local_rank = 0;
  int local_size = 1;
  std::map<std::string, std::string> versions;  ///< "echelon", "engine", "pmix", "mpi", "nccl", "kernel" ...
  std::string cores;                            ///< cores it may run on: "0-3,8"
  double clock_s = 0;                           ///< UTC in seconds, read by all ranks at the same moment
  // Facts about the node.
  std::uint64_t memory_bytes = 0;
  std::string instance;  ///< product name; on EC2 the instance type
  int efa_devices = 0;
  std::uint64_t locked_memory = 0;                 ///< RLIMIT_MEMLOCK, bytes
  bool ofi_plugin = false;                         ///< whether NCCL's EFA plugin can be loaded
  std::map<std::string, std::string> environment;  ///< the checked ones of FI_*, NCCL_* and RDMAV_*
  std::vector<GpuCard> gpus;
  std::string gpu_note;
  RoomFacts shm;
  RoomFacts tmp;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RoomFacts, fault, available_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuCard, name, memory_bytes, max_mhz, slowed_by, ecc_errors)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeCard, host, node, local_rank, local_size, versions, cores, clock_s,
                                   memory_bytes, instance, efa_devices, locked_memory, ofi_plugin,
                                   environment, gpus, gpu_note, shm, tmp)

/// Examines this process and, in the first rank of a node, the node. Faults are part of the card, not
/// exceptions.
[[nodiscard]] NodeCard make_card(const Machine& machine, const JobInfo& info);

}  // namespace echelon::app::doctor
