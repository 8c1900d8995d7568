#include "forecast/gpu_rates.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "comm/payload.h"

namespace echelon::forecast {
namespace {

/// Seconds of one message between hosts, in a small sum (estimate).
constexpr double kHostMessage_s = 20e-6;

/// The rate of a rank's core and memory, for computations of a GPU run in host memory (estimate: 200 GB/s of
/// a node, shared by 8 ranks).
constexpr double kHostBytes_per_s = 25e9;

/// Attention takes an exponential for each score, whatever the size of a head: as long as the products take
/// for so many elements of one. From heads of 64 and 128 elements on an H100 (docs/gpu.md): 405 and 530
/// TFLOP/s forward, 360 and 427 backward.
constexpr double kScoreForward = 59;
constexpr double kScoreBackward = 30;
/// Products of fp8 reach this part of their peak for each part that those of bf16 reach of theirs. Measured
/// with PyTorch on an H100 (docs/gpu.md): 1.75 to 1.86 times the rate of bf16, of a peak twice as high. On
/// other devices and in a step it is an estimate.
constexpr double kFp8Reached = 0.9;

/// The head size of the profiles' rates of attention.
constexpr double kProfiledHead = 128;

/// The rate of attention, as a fraction of that with the profiles' head size.
double slowed_by_small_heads(const Work& work) {
  if (work.head_size == 0) return 1;
  const double score = work.cost == Cost::kAttention ? kScoreForward : kScoreBackward;
  return (1 + score / kProfiledHead) / (1 + score / work.head_size);
}

}  // namespace

NodeGrid grid_of(const Group& group, int ranks_per_node) {
  return NodeGrid::of(mapped(group.ranks, [&](int rank) { return rank / ranks_per_node; }));
}

double share_to_other_nodes(const Message& message, const Group& group, int ranks_per_node, bool on_gpus) {
  const auto size = static_cast<double>(group.ranks.size());
  const double nodes = nodes_of(group, ranks_per_node);
  if (nodes <= 1) return 0;
  if (on_gpus && !is_exchanged(message.kind, message.type)) return nodes / size;
  if (const NodeGrid grid = grid_of(group, ranks_per_node); on_gpus && grid.nodes > 1) {
    const auto between = static_cast<double>(grid.bytes_between(1));
    return between / (between + static_cast<double>(grid.bytes_within(1)));
  }
  return (size - size / nodes) / (size - 1);
}

int nodes_of(const Group& group, int ranks_per_node) {
  std::set<int> nodes;
  for (const int rank : group.ranks) nodes.insert(rank / ranks_per_node);
  return static_cast<int>(nodes.size());
}

double GpuRates::peak_flops(DType type) const {
  switch (type) {
    case DType::kBF16: return device_.flops.at("bf16");
    case DType::kF16: return device_.flops.at("fp16");
    default: return device_.flops.at("fp32");
  }
}

double GpuRates::seconds(const Work& work) const {
  if (work.on_host) return work.bytes / kHostBytes_per_s;
  if (work.cost == Cost::kHostCopy) return work.bytes / (device_.host.bytes_per_s * device_.host.achieved);
  const Device::Achieved& reached = device_.achieved;
  const double moved = work.bytes / (device_.memory_bytes_per_s * reached.memory);
  double fraction = reached.product;
  if (work.cost == Cost::kAttention) fraction = reached.attention_forward * slowed_by_small_heads(work);
  if (work.cost == Cost::kAttentionBackward)
    fraction = reached.attention_backward * slowed_by_small_heads(work);
  double peak = peak_flops(work.type);
  if (work.cost == Cost::kFp8Product) {
    const auto fp8 = device_.flops.find("fp8");
    if (fp8 == device_.flops.end()) {
      throw Error(Code::kUsage, "precision.matmul is fp8, which the device profile '", device_.name,
                  "' has no rate of (flops.fp8); set precision.matmul: param, or plan for a device with "
                  "fp8, such as --gpu h100");
    }
    peak = fp8->second * kFp8Reached;
  }
  const double computed = work.flops / (peak * fraction);
  return std::max({moved, computed, device_.kernel_s});
}

double GpuRates::seconds(const Message& message, const Group& group) const {
  const auto size = static_cast<double>(group.ranks.size());
  if (size <= 1) return 0;
  if (group.on_host) return kHostMessage_s * std::ceil(std::log2(size));
  if (is_exchanged(message.kind, message.type)) return exchange_s(message, group);
  const double nodes = nodes_of(group, ranks_per_node_);
  const bool by_part =
      message.kind == OperationKind::kAllGather || message.kind == OperationKind::kReduceScatter;
  const bool twice = message.kind == OperationKind::kAllReduce;
  const double whole =
      static_cast<double>(message.count * size_of(message.type)) * (by_part ? size : 1) * (twice ? 2 : 1);
  const double sent = whole * (size - 1) / size;
  const double away = sent * share_to_other_nodes(message, group, ranks_per_node_, true);
  // A ring passes everything on within the node.
  const double peer_s = size > nodes ? sent / peer_bytes_per_s() : 0;
  return std::max(away / network_bytes_per_s(), peer_s) + latency_s(message, size, nodes);
}

double GpuRates::network_bytes_per_s() const {
  const double per_gpu = network_.link.bytes_per_s / (network_.per_node ? ranks_per_node_ : 1);
  return per_gpu * network_.link.achieved;
}

double GpuRates::peer_bytes_per_s() const {
  return device_.peer.bytes_per_s * device_.peer.achieved;
}

/// All messages of a stage start at once. On a grid the nodes' sums follow the exchange within nodes; without
/// one, messages within and between nodes run side by side.
double GpuRates::exchange_s(const Message& message, const Group& group) const {
  const NodeGrid grid = grid_of(group, ranks_per_node_);
  if (grid.nodes > 1) {
    return static_cast<double>(grid.bytes_within(message.count)) / peer_bytes_per_s() +
           device_.peer.latency_s +
           static_cast<double>(grid.bytes_between(message.count)) / network_bytes_per_s() +
           network_.link.latency_s;
  }
  const double sent = static_cast<double>(message.count * size_of(message.type)) *
                      static_cast<double>(group.ranks.size() - 1);
  const double away = sent * share_to_other_nodes(message, group, ranks_per_node_, true);
  return std::max(away / network_bytes_per_s(), (sent - away) / peer_bytes_per_s()) +
         (away > 0 ? network_.link.latency_s : device_.peer.latency_s);
}

/// NCCL's model (src/graph/tuning.cc): a ring has a step for every rank, a tree, for all-reduce, one for
/// every rank of a node and level of nodes.
double GpuRates::latency_s(const Message& message, double size, double nodes) const {
  const double between = network_.link.latency_s;
  const double within = device_.peer.latency_s;
  const double ring = (nodes - 1) * between + (size - nodes) * within;
  if (message.kind != OperationKind::kAllReduce) return ring;
  const double tree = (size / nodes - 1) * within + std::log2(nodes) * between;
  return 2 * std::min(ring, tree);
}

}  // namespace echelon::forecast
