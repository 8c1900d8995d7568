#pragma once
#include <vector>

#include "app/doctor/finding.h"
#include "app/doctor/machine/node_card.h"

/// Checks of a job from the cards of all its ranks. `cards` are indexed by rank. Each check is one pure
/// function.
namespace echelon::app::doctor {

/// Every node has the same number of ranks and at least one core per rank.
[[nodiscard]] Finding check_ranks(const std::vector<NodeCard>& cards);
/// All ranks run the same program with the same libraries. Names the ranks that differ from the majority.
[[nodiscard]] Finding check_versions(const std::vector<NodeCard>& cards);
/// Every node has the same number of GPUs, at least one per rank, and as many as its instance type has.
[[nodiscard]] Finding check_gpu_count(const std::vector<NodeCard>& cards);
/// No GPU is throttled by heat or power, differs from the others, or reports uncorrected memory errors.
[[nodiscard]] Finding check_gpu_clocks(const std::vector<NodeCard>& cards);
/// Every node has as many EFA devices as its instance type; for unknown types, as many as the other nodes.
[[nodiscard]] Finding check_efa(const std::vector<NodeCard>& cards);
/// On nodes with EFA devices: libfabric is configured to use them, NCCL finds its EFA plugin, memory can be
/// locked.
[[nodiscard]] Finding check_efa_use(const std::vector<NodeCard>& cards);
/// /dev/shm is writable and has room for the node's ranks.
[[nodiscard]] Finding check_shm(const std::vector<NodeCard>& cards);
/// /tmp is writable and has room for the files of PMIx and MPI.
[[nodiscard]] Finding check_tmp(const std::vector<NodeCard>& cards);
/// No node has less memory than the other nodes.
[[nodiscard]] Finding check_memory_size(const std::vector<NodeCard>& cards);
/// The clocks of all nodes agree.
[[nodiscard]] Finding check_time(const std::vector<NodeCard>& cards);

/// All checks above.
[[nodiscard]] std::vector<Finding> check_cards(const std::vector<NodeCard>& cards);

}  // namespace echelon::app::doctor
