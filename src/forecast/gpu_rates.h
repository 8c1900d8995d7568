#pragma once
#include "comm/node_grid.h"
#include "forecast/profile.h"
#include "forecast/timeline.h"

namespace echelon::forecast {

/// Times on GPUs: an operation takes what the slower of arithmetic and memory needs, at the fractions of the
/// peaks that the profile says are reached, and at least the profile's shortest kernel. Collectives take what
/// rings over the slower of the links take.
class GpuRates final : public Rates {
 public:
  /// Ranks are numbered by node, `ranks_per_node` on each.
  GpuRates(Device device, Network network, int ranks_per_node)
      : device_(std::move(device)), network_(std::move(network)), ranks_per_node_(ranks_per_node) {}

  [[nodiscard]] double seconds(const Work& work) const override;
  [[nodiscard]] double seconds(const Message& message, const Group& group) const override;
  [[nodiscard]] double launch_s() const override { return device_.launch_s; }
  [[nodiscard]] bool has_device() const override { return true; }
  [[nodiscard]] double taken_by_messages() const override { return device_.collective_share; }

  /// Peak FLOP/s for products of this type.
  [[nodiscard]] double peak_flops(DType type) const;

 private:
  [[nodiscard]] double latency_s(const Message& message, double size, double nodes) const;
  [[nodiscard]] double exchange_s(const Message& message, const Group& group) const;
  [[nodiscard]] double network_bytes_per_s() const;  ///< of one rank, as they are reached
  [[nodiscard]] double peer_bytes_per_s() const;

  Device device_;
  Network network_;
  int ranks_per_node_;
};

/// Nodes that a group spans, with ranks numbered by node.
[[nodiscard]] int nodes_of(const Group& group, int ranks_per_node);

/// Returns the grid on which the group's ranks exchange gradients of two bytes between GPUs.
[[nodiscard]] NodeGrid grid_of(const Group& group, int ranks_per_node);

/// Returns the share of a rank's sent bytes that leaves its node. In a ring one rank of each node sends to
/// another node. Where every rank sends to every other (CPU ranks, and gradients of two bytes between GPUs),
/// it is the share of the ranks elsewhere. On a grid, the node's sums leave.
[[nodiscard]] double share_to_other_nodes(const Message& message, const Group& group, int ranks_per_node,
                                          bool on_gpus);

}  // namespace echelon::forecast
