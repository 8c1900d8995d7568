#include "forecast/gpu_rates.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"

namespace echelon::forecast {
namespace {

/// Of round numbers. Reached are: products 5e14 FLOP/s in bf16, memory 5e11 B/s, host copies 8e9 B/s, peers
/// 5e10 B/s, the network 5e9 B/s.
Device round_device() {
  Device device;
  device.memory_bytes_per_s = 1e12;
  device.flops = {{"bf16", 1e15}, {"fp16", 5e14}, {"tf32", 2e14}, {"fp8", 2e15}, {"fp32", 1e14}};
  device.achieved = {.product = 0.5, .attention_forward = 0.25, .attention_backward = 0.2, .memory = 0.5};
  device.kernel_s = 1e-6;
  device.launch_s = 3e-6;
  device.peer = {.bytes_per_s = 1e11, .achieved = 0.5, .latency_s = 1e-6};
  device.host = {.bytes_per_s = 1e10, .achieved = 0.8};
  return device;
}

Network round_network(bool per_node) {
  return {.link = {.bytes_per_s = 1e10, .achieved = 0.5, .latency_s = 1e-5}, .per_node = per_node};
}

GpuRates round_rates(bool per_node = true, int ranks_per_node = 8) {
  return {round_device(), round_network(per_node), ranks_per_node};
}

/// `count` ranks: 0, `step`, 2 `step`, ...
Group every(int step, int count) {
  Group group{std::vector<int>(static_cast<std::size_t>(count))};
  for (int i = 0; i < count; ++i) group.ranks[static_cast<std::size_t>(i)] = i * step;
  return group;
}

Message sent(OperationKind kind, std::uint64_t count, DType type = DType::kF32) {
  return {.kind = kind, .type = type, .count = count};
}

void expect_seconds(double actual, double expected, const std::string& what) {
  EXPECT_NEAR(actual, expected, 1e-9 * expected) << what;
}

TEST(GpuRates, OfWorkAreWhatTheSlowestLimitAllows) {
  struct Case {
    const char* what;
    Work work;
    double seconds;
  };
  const std::vector<Case> cases{
      {"arithmetic", {.flops = 1e12, .bytes = 1e6, .cost = Cost::kProduct, .type = DType::kBF16}, 2e-3},
      {"memory", {.flops = 1e9, .bytes = 2e9, .cost = Cost::kProduct, .type = DType::kBF16}, 4e-3},
      {"neither", {.flops = 1, .bytes = 1, .cost = Cost::kProduct, .type = DType::kBF16}, 1e-6},
      {"fp16", {.flops = 1e12, .bytes = 1e6, .cost = Cost::kProduct, .type = DType::kF16}, 4e-3},
      {"fp32", {.flops = 1e12, .bytes = 1e6, .cost = Cost::kProduct, .type = DType::kF32}, 2e-2},
      {"fp8", {.flops = 1.8e12, .bytes = 1e6, .cost = Cost::kFp8Product, .type = DType::kU8}, 2e-3},
      {"attention", {.flops = 1e12, .bytes = 1e6, .cost = Cost::kAttention, .type = DType::kBF16}, 4e-3},
      {"long attention of short heads",
       {.flops = 1e9, .bytes = 5e9, .cost = Cost::kAttention, .type = DType::kBF16},
       1e-2},
      {"its backward",
       {.flops = 1e12, .bytes = 1e6, .cost = Cost::kAttentionBackward, .type = DType::kBF16},
       5e-3},
      {"element by element", {.bytes = 5e8, .cost = Cost::kMemory, .type = DType::kBF16}, 1e-3},
      {"a few elements", {.bytes = 100, .cost = Cost::kMemory, .type = DType::kI64}, 1e-6},
      {"in host memory", {.bytes = 25e9, .cost = Cost::kMemory, .type = DType::kF32, .on_host = true}, 1},
      {"to the host", {.bytes = 4e9, .cost = Cost::kHostCopy, .type = DType::kBF16}, 0.5}};
  const GpuRates rates = round_rates();
  for (const Case& c : cases) expect_seconds(rates.seconds(c.work), c.seconds, c.what);
}

TEST(GpuRates, OfFp8AreNotInvented) {
  Device device = round_device();
  device.flops.erase("fp8");
  device.name = "old";
  const GpuRates rates(device, round_network(true), 8);
  EXPECT_MENTIONS(
      test::error_of([&] { return rates.seconds(Work{.flops = 1e12, .cost = Cost::kFp8Product}); }),
      "the device profile 'old' has no rate of");
}

TEST(GpuRates, SayWhatTheDeviceIs) {
  const GpuRates rates = round_rates();
  EXPECT_EQ(rates.peak_flops(DType::kBF16), 1e15);
  EXPECT_EQ(rates.peak_flops(DType::kF16), 5e14);
  EXPECT_EQ(rates.peak_flops(DType::kF32), 1e14);
  EXPECT_EQ(rates.launch_s(), 3e-6);
  EXPECT_TRUE(rates.has_device());
}

TEST(GpuRates, CountNodes) {
  EXPECT_EQ(nodes_of(every(1, 8), 8), 1);
  EXPECT_EQ(nodes_of(every(1, 9), 8), 2);
  EXPECT_EQ(nodes_of(every(8, 3), 8), 3);
  EXPECT_EQ(nodes_of({{6, 7, 8}, false}, 8), 2);
  EXPECT_EQ(nodes_of(every(1, 4), 1), 4);
}

TEST(GpuRates, OfCollectivesInsideANode) {
  const GpuRates rates = round_rates();
  // 32 MB of which each rank receives 7 of 8 parts: 28 MB at 50 GB/s, and 7 steps of 1 us.
  const double once = 2.8e7 / 5e10 + 7e-6;
  const Group node = every(1, 8);
  expect_seconds(rates.seconds(sent(OperationKind::kAllGather, 1'000'000), node), once, "all-gather");
  expect_seconds(rates.seconds(sent(OperationKind::kAllGather, 2'000'000, DType::kBF16), node), once, "bf16");
  expect_seconds(rates.seconds(sent(OperationKind::kReduceScatter, 1'000'000), node), once, "reduce-scatter");
  expect_seconds(rates.seconds(sent(OperationKind::kAllReduce, 8'000'000), node), 2 * once,
                 "an all-reduce is a reduce-scatter and an all-gather");
  // Half of the node: 16 MB, 12 of them received, 3 steps.
  expect_seconds(rates.seconds(sent(OperationKind::kAllGather, 1'000'000), every(1, 4)), 1.2e7 / 5e10 + 3e-6,
                 "half a node");
}

TEST(GpuRates, OfRingsAcrossNodes) {
  // Two nodes of 8 ranks, 64 MB in all. A ring passes 15 of 16 parts over each of its links: one into each
  // node, 14 inside. That is what `achieved`, NCCL's bus bandwidth, is a fraction of.
  const Group two_nodes = every(1, 16);
  const Message gather = sent(OperationKind::kAllGather, 1'000'000);
  const double latency = 1e-5 + 14 * 1e-6;
  // A node has 5 GB/s.
  expect_seconds(round_rates(true).seconds(gather, two_nodes), 6e7 / 5e9 + latency, "the network of a node");
  // Each of 8 GPUs has 5 GB/s, together 40; to its neighbors each has 50.
  expect_seconds(round_rates(false).seconds(gather, two_nodes), 6e7 / 4e10 + latency, "one for each GPU");
}

TEST(GpuRates, OfGradientsOfTwoBytes) {
  // bf16: 2 MB from each rank to each other of its node.
  const Message reduce = sent(OperationKind::kReduceScatter, 1'000'000, DType::kBF16);
  expect_seconds(round_rates(true).seconds(reduce, every(1, 8)), 7 * 2e6 / 5e10 + 1e-6, "one node");
  // For both nodes, and then 4 MB of sums to the other one; all 8 ranks of the node send at 5 GB/s together.
  expect_seconds(round_rates(true).seconds(reduce, every(1, 16)),
                 2 * 7 * 2e6 / 5e10 + 1e-6 + 8 * 4e6 / 5e9 + 1e-5, "two nodes");
  // Nodes of unlike size: each rank to every other, 9 of them on other nodes for a rank of the first.
  expect_seconds(round_rates(true).seconds(reduce, {{0, 1, 2, 8, 9, 10, 11}, false}),
                 8 * (6 * 2e6 * (7 - 3.5) / 6) / 5e9 + 1e-5, "an odd group");
}

TEST(GpuRates, OfGroupsWithOneRankOnEachNode) {
  // Replicas: the other 7 GPUs of each node do the same at the same time.
  const Group replicas = every(8, 2);
  const Message sum = sent(OperationKind::kAllReduce, 1'000'000);
  // 4 MB, half of them received, at an eighth of the node's 5 GB/s; one step between nodes.
  expect_seconds(round_rates(true).seconds(sum, replicas), 2 * (2e6 / 6.25e8 + 1e-5), "shared");
  expect_seconds(round_rates(false).seconds(sum, replicas), 2 * (2e6 / 5e9 + 1e-5), "own");
  // Four nodes: 3 of 4 parts, three steps of a ring, two of a tree.
  expect_seconds(round_rates(false).seconds(sum, every(8, 4)), 2 * (3e6 / 5e9 + 2e-5), "four nodes");
  // One GPU a node has all of the node's network.
  expect_seconds(round_rates(true, 1).seconds(sum, every(1, 2)), 2 * (2e6 / 5e9 + 1e-5), "one GPU a node");
}

TEST(GpuRates, OfOneRankAndOfTheHost) {
  const GpuRates rates = round_rates();
  for (const auto kind :
       {OperationKind::kAllGather, OperationKind::kReduceScatter, OperationKind::kAllReduce}) {
    EXPECT_EQ(rates.seconds(sent(kind, 1'000'000), every(1, 1)), 0);
  }
  // A small sum over a tree of messages.
  Group host = every(1, 8);
  host.on_host = true;
  const double of_8 = rates.seconds(sent(OperationKind::kAllReduce, 8, DType::kF64), host);
  EXPECT_GT(of_8, 0);
  host = every(1, 64);
  host.on_host = true;
  expect_seconds(rates.seconds(sent(OperationKind::kAllReduce, 8, DType::kF64), host), 2 * of_8, "64 ranks");
}

TEST(GpuRates, GrowWithTheBytes) {
  const GpuRates rates = round_rates();
  for (const int ranks : {2, 8, 16, 64}) {
    double before = 0;
    for (const std::uint64_t count : {1'000, 1'000'000, 1'000'000'000}) {
      const double seconds = rates.seconds(sent(OperationKind::kAllGather, count), every(1, ranks));
      EXPECT_GT(seconds, before) << ranks;
      before = seconds;
    }
  }
}

}  // namespace
}  // namespace echelon::forecast
