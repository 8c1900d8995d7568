#include "app/doctor/checks/card_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/process/cores.h"
#include "base/str.h"

namespace echelon::app::doctor {
namespace {

/// The first rank of each node; only its card describes the node.
std::vector<const NodeCard*> nodes_of(const std::vector<NodeCard>& cards) {
  std::vector<const NodeCard*> nodes;
  for (const NodeCard& card : cards)
    if (card.local_rank == 0) nodes.push_back(&card);
  return nodes;
}

/// The most frequent value; among equally frequent ones, that of the lowest rank.
template <class Value>
Value usual(const std::vector<Value>& values) {
  std::map<Value, std::size_t> counts;
  std::size_t most = 0;
  for (const Value& value : values) most = std::max(most, ++counts[value]);
  return *std::ranges::find_if(values, [&](const Value& value) { return counts[value] == most; });
}

template <class Get>
auto usual_of_nodes(const std::vector<const NodeCard*>& nodes, Get get) {
  return usual(mapped(nodes, [&](const NodeCard* node) { return get(*node); }));
}

struct InstanceType {
  const char* name;
  int gpus;
  int efa_devices;
};
// EC2 instance types with GPUs and EFA.
constexpr std::array<InstanceType, 7> kInstanceTypes{{{"p4d.24xlarge", 8, 4},
                                                      {"p4de.24xlarge", 8, 4},
                                                      {"p5.48xlarge", 8, 32},
                                                      {"p5e.48xlarge", 8, 32},
                                                      {"p5en.48xlarge", 8, 16},
                                                      {"p6-b200.48xlarge", 8, 8},
                                                      {"p6-b300.48xlarge", 8, 16}}};

const InstanceType* type_of(const NodeCard& card) {
  const auto* const found = std::ranges::find(kInstanceTypes, card.instance, &InstanceType::name);
  return found == kInstanceTypes.end() ? nullptr : found;
}

std::string version_of(const NodeCard& card, const std::string& what) {
  const auto found = card.versions.find(what);
  return found == card.versions.end() ? "none" : found->second;
}

Finding check_room(const std::string& name, const std::string& folder, const std::vector<NodeCard>& cards,
                   RoomFacts NodeCard::*room, std::uint64_t bytes_per_rank, const std::string& advice) {
  Complaints broken;
  Complaints small;
  const auto nodes = nodes_of(cards);
  for (const NodeCard* node : nodes) {
    const RoomFacts& facts = node->*room;
    const std::uint64_t needed = bytes_per_rank * static_cast<std::uint64_t>(node->local_size);
    if (!facts.fault.empty())
      broken.add(node->host, str(node->host, " cannot write in ", folder, ": ", facts.fault));
    else if (facts.available_bytes < needed)
      small.add(node->host, str(node->host, " has ", human_bytes(facts.available_bytes), " free in ", folder,
                                ", ", node->local_size, " ranks need ", human_bytes(needed)));
  }
  if (!broken.none()) return broken.judge(Verdict::kFault, name, "", advice);
  return small.judge(
      Verdict::kWarning, name,
      str(folder, " can be written and has room on ", nodes.size() == 1 ? "this node" : "every node"),
      advice);
}

}  // namespace

Finding check_ranks(const std::vector<NodeCard>& cards) {
  const auto nodes = nodes_of(cards);
  const int size = usual_of_nodes(nodes, [](const NodeCard& node) { return node.local_size; });
  Complaints complaints;
  std::map<int, std::set<int>> cores;
  for (const NodeCard& card : cards) {
    const std::vector<int> own = cores_of_list(card.cores);
    cores[card.node].insert(own.begin(), own.end());
  }
  for (const NodeCard* node : nodes) {
    const auto usable = static_cast<int>(cores[node->node].size());
    if (node->local_size != size)
      complaints.add(node->host,
                     str(node->host, " has ", node->local_size, " ranks where others have ", size));
    else if (usable > 0 && usable < node->local_size)
      complaints.add(node->host,
                     str("the ", node->local_size, " ranks of ", node->host, " may use ", usable, " cores"));
  }
  return complaints.judge(
      Verdict::kWarning, "ranks",
      str(counted(cards.size(), "rank"), ", ", size, " on each of ", counted(nodes.size(), "node")),
      "start the same number of tasks on every node (--ntasks-per-node) and let them use all its cores "
      "(--exclusive, srun --cpu-bind=none)");
}

Finding check_versions(const std::vector<NodeCard>& cards) {
  Complaints complaints;
  bool grave = false;
  for (const auto& version : cards[0].versions) {
    const std::string& what = version.first;
    const std::vector<std::string> values =
        mapped(cards, [&](const NodeCard& card) { return version_of(card, what); });
    const std::string expected = usual(values);
    for (std::size_t rank = 0; rank < cards.size(); ++rank) {
      if (values[rank] == expected) continue;
      complaints.add(cards[rank].host, str("rank ", rank, " on ", cards[rank].host, " has ", what, " ",
                                           values[rank], ", others ", expected));
      grave = grave || (what != "kernel" && what != "driver");
    }
  }
  Finding finding = complaints.judge(
      grave ? Verdict::kFault : Verdict::kWarning, "versions",
      str("the same on all ranks: echelon ", version_of(cards[0], "echelon"), ", ",
          version_of(cards[0], "engine"), ", ", version_of(cards[0], "pmix"), ", ",
          version_of(cards[0], "mpi")),
      "start the program from a folder that all nodes share, and give all nodes the same image; until then "
      "exclude the nodes that differ (--exclude)");
  if (complaints.none()) finding.values = cards[0].versions;
  return finding;
}

Finding check_gpu_count(const std::vector<NodeCard>& cards) {
  const auto nodes = nodes_of(cards);
  const auto count = [](const NodeCard& node) { return static_cast<int>(node.gpus.size()); };
  const int common = usual_of_nodes(nodes, count);
  Complaints complaints;
  for (const NodeCard* node : nodes) {
    const InstanceType* type = type_of(*node);
    const int there = count(*node);
    // A step may request fewer GPUs than its node has, so that alone is no fault; fewer than on other nodes
    // is one.
    if (there < common)
      complaints.add(node->host,
                     str(node->host, " shows ", there, " of the ", common, " GPUs that others show"));
    else if (there == 0 && type != nullptr)
      complaints.add(node->host, str(node->host, " (", type->name, ") has ", type->gpus,
                                     " GPUs and shows none: ", version_of(*node, "driver")));
    else if (there > 0 && there < node->local_size)
      complaints.add(node->host,
                     str(node->host, " shows ", counted(there, "GPU"), " to ", node->local_size, " ranks"));
  }
  return complaints.judge(
      Verdict::kFault, "gpus",
      common == 0 ? "no GPUs: ranks compute on the CPU" : str(common, " GPUs on each node"),
      "request the GPUs (--gpus-per-node) and the same number of tasks; restart the driver of a "
      "node that lost a GPU, or have the node replaced; until then leave it out (--exclude)");
}

Finding check_gpu_clocks(const std::vector<NodeCard>& cards) {
  Complaints complaints;
  std::vector<int> clocks;
  std::size_t unknown_nodes = 0;
  const auto nodes = nodes_of(cards);
  for (const NodeCard* node : nodes) {
    for (const GpuCard& gpu : node->gpus) clocks.push_back(gpu.max_mhz);
    if (!node->gpus.empty() && !node->gpu_note.empty()) ++unknown_nodes;
  }
  if (clocks.empty()) return ok("gpu_clocks", "no GPUs");
  if (unknown_nodes > 0)
    return unknown("gpu_clocks", str("clocks are not known: ", nodes[0]->gpu_note),
                   "install nvidia-smi on the nodes");
  const int common = usual(clocks);
  for (const NodeCard* node : nodes) {
    for (std::size_t i = 0; i < node->gpus.size(); ++i) {
      const GpuCard& gpu = node->gpus[i];
      const std::string slowed = grave_slowdown(gpu.slowed_by);
      const std::string name = str("GPU ", i, " of ", node->host);
      if (!slowed.empty()) complaints.add(node->host, str(name, " is slowed down by ", slowed));
      if (gpu.ecc_errors > 0)
        complaints.add(node->host, str(name, " has ", gpu.ecc_errors, " uncorrected memory errors"));
      if (gpu.max_mhz < common)
        complaints.add(node->host, str(name, " runs at up to ", gpu.max_mhz, " MHz, others at ", common));
    }
  }
  return complaints.judge(Verdict::kFault, "gpu_clocks",
                          str("all GPUs run at up to ", common, " MHz, none is slowed down"),
                          "reset the GPU or have the node replaced; until then leave it out (--exclude)");
}

Finding check_efa(const std::vector<NodeCard>& cards) {
  const auto nodes = nodes_of(cards);
  const int common = usual_of_nodes(nodes, [](const NodeCard& node) { return node.efa_devices; });
  Complaints complaints;
  for (const NodeCard* node : nodes) {
    const InstanceType* type = type_of(*node);
    const int expected = type == nullptr ? common : type->efa_devices;
    if (node->efa_devices >= expected) continue;
    complaints.add(node->host, str(node->host, type == nullptr ? "" : str(" (", type->name, ")"), " has ",
                                   node->efa_devices, " EFA devices, expected ", expected));
  }
  return complaints.judge(
      Verdict::kFault, "efa",
      common == 0 ? "no EFA devices, and none expected" : str(common, " EFA devices on each node"),
      "set Efa: {Enabled: true} for the queue; devices can appear late at boot: wait a minute, then have "
      "the node replaced");
}

Finding check_efa_use(const std::vector<NodeCard>& cards) {
  Complaints complaints;
  const auto nodes = nodes_of(cards);
  bool any = false;
  for (const NodeCard* node : nodes) {
    if (node->efa_devices == 0) continue;
    any = true;
    auto variables = node->environment;  // a copy, which may get an empty one
    constexpr std::uint64_t kEnough = std::uint64_t{16} << 30;
    if (variables["FI_PROVIDER"] != "efa")
      complaints.add(node->host, str("FI_PROVIDER is '", variables["FI_PROVIDER"], "' on ", node->host,
                                     ": libfabric may silently fall back to TCP"));
    if (!node->gpus.empty() && !node->ofi_plugin)
      complaints.add(node->host, str("NCCL's plugin libnccl-net.so is not in the library path of ",
                                     node->host, ": NCCL uses TCP"));
    if (node->locked_memory < kEnough)
      complaints.add(node->host, str("ranks on ", node->host, " may lock ", human_bytes(node->locked_memory),
                                     " of memory, but EFA requires no limit"));
    if (!variables["RDMAV_FORK_SAFE"].empty())
      complaints.add(node->host,
                     str("RDMAV_FORK_SAFE is set on ", node->host, ", which EFA does not support"));
  }
  if (!any) return ok("efa_use", "no EFA devices to use");
  return complaints.judge(
      Verdict::kWarning, "efa_use", "EFA is used: provider, plugin and locked memory are available",
      "export FI_PROVIDER=efa, unset RDMAV_FORK_SAFE, add /opt/amazon/ofi-nccl to LD_LIBRARY_PATH, set "
      "LimitMEMLOCK=infinity for slurmd");
}

Finding check_shm(const std::vector<NodeCard>& cards) {
  return check_room("shm", "/dev/shm", cards, &NodeCard::shm, std::uint64_t{64} << 20,
                    "mount a tmpfs of half the memory there; in a container --shm-size=16g or --ipc=host");
}

Finding check_tmp(const std::vector<NodeCard>& cards) {
  return check_room("tmp", "/tmp", cards, &NodeCard::tmp, std::uint64_t{16} << 20,
                    "remove what earlier jobs left there; PMIx and MPI keep their sockets and files in it");
}

Finding check_memory_size(const std::vector<NodeCard>& cards) {
  const auto nodes = nodes_of(cards);
  std::uint64_t most = 0;
  for (const NodeCard* node : nodes) most = std::max(most, node->memory_bytes);
  Complaints complaints;
  for (const NodeCard* node : nodes) {
    if (static_cast<double>(node->memory_bytes) < 0.97 * static_cast<double>(most))
      complaints.add(node->host, str(node->host, " has ", human_bytes(node->memory_bytes),
                                     " of memory, others ", human_bytes(most)));
  }
  return complaints.judge(Verdict::kWarning, "memory", str(human_bytes(most), " of memory on each node"),
                          "a memory module may have failed: have the node examined, or leave it out");
}

Finding check_time(const std::vector<NodeCard>& cards) {
  std::vector<double> clocks = mapped(cards, &NodeCard::clock_s);
  std::ranges::sort(clocks);
  const double middle = clocks[clocks.size() / 2];
  // Seconds; ranks read their clocks within a barrier's time, which is a second or two on a busy machine.
  constexpr double kFar = 5;
  Complaints complaints;
  for (const NodeCard* node : nodes_of(cards)) {
    const double off = node->clock_s - middle;
    if (std::abs(off) > kFar)
      complaints.add(node->host, str("the clock of ", node->host, " is ", std::round(std::abs(off)), " s ",
                                     off < 0 ? "behind" : "ahead"));
  }
  return complaints.judge(Verdict::kWarning, "time", "the nodes' clocks agree",
                          "start chrony on the nodes; leases and logs depend on the clock");
}

std::vector<Finding> check_cards(const std::vector<NodeCard>& cards) {
  return {check_ranks(cards),       check_versions(cards), check_gpu_count(cards), check_gpu_clocks(cards),
          check_efa(cards),         check_efa_use(cards),  check_shm(cards),       check_tmp(cards),
          check_memory_size(cards), check_time(cards)};
}

}  // namespace echelon::app::doctor
