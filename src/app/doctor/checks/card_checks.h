#pragma once
#include <vector>

#include "app/doctor/finding.h"
#include "app/doctor/machine/node_card.h"

/// What the cards of all ranks, by rank, tell about a job. One function for each thing, pure.
namespace echelon::app::doctor {

/// The cores of "0-3,8"; what is no number is left out.
[[nodiscard]] std::vector<int> cores_of(const std::string& ranges);

/// Every node has as many ranks, and at least a core for each.
[[nodiscard]] Finding check_ranks(const std::vector<NodeCard>& cards);
/// All ranks run the same program on the same libraries; names those that differ from the majority.
[[nodiscard]] Finding check_versions(const std::vector<NodeCard>& cards);
/// Every node has as many GPUs, enough for its ranks and as many as its instance type has.
[[nodiscard]] Finding check_gpu_count(const std::vector<NodeCard>& cards);
/// No GPU is slowed down by heat or power, differs from the others, or counts memory errors.
[[nodiscard]] Finding check_gpu_clocks(const std::vector<NodeCard>& cards);
/// Every node has the EFA devices of its instance type, or as many as the others.
[[nodiscard]] Finding check_efa(const std::vector<NodeCard>& cards);
/// Where there are EFA devices: libfabric is told to use them, NCCL finds its plugin, memory can be locked.
[[nodiscard]] Finding check_efa_use(const std::vector<NodeCard>& cards);
/// /dev/shm can be written and has room for the node's ranks.
[[nodiscard]] Finding check_shm(const std::vector<NodeCard>& cards);
/// /tmp can be written and has room for the files of PMIx and MPI.
[[nodiscard]] Finding check_tmp(const std::vector<NodeCard>& cards);
/// No node has less memory than the others.
[[nodiscard]] Finding check_memory_size(const std::vector<NodeCard>& cards);
/// The nodes' clocks agree.
[[nodiscard]] Finding check_time(const std::vector<NodeCard>& cards);

/// All of them.
[[nodiscard]] std::vector<Finding> check_cards(const std::vector<NodeCard>& cards);

}  // namespace echelon::app::doctor
