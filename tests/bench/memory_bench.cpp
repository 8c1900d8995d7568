// What a save to memory costs: two ranks on two made-up nodes (folders of FOLDER, a tmpfs) save the same
// bytes again and again, each with its copy on the other node. Beside it, in the same round, one copy of the
// same bytes in memory by one thread. usage: memory_bench FOLDER [MIB PER RANK] [ROUNDS]; one JSON line a
// round
#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "checkpoint/format/names.h"
#include "checkpoint/memory/node_layout.h"
#include "checkpoint/memory/node_save.h"
#include "checkpoint/write/rank_save.h"

namespace {

using namespace echelon;              // NOLINT
using namespace echelon::checkpoint;  // NOLINT
using Path = std::filesystem::path;

constexpr int kRanks = 2;
constexpr std::size_t kTensors = 64;
constexpr Secret kSecret{'b', 'e', 'n', 'c', 'h'};

/// One rank, which is also its node.
struct Node {
  Node(const Path& root, int own_rank, std::size_t bytes)
      : rank(own_rank),
        state(bytes),
        copy(bytes),
        staging(std::make_shared<Staging>(bytes + Staging::kWindowBytes)) {
    const Path memory_dir = root / str("node-", rank);
    std::filesystem::create_directories(memory_dir);
    folder = std::make_unique<MemoryFolder>(
        MemoryIdentity{.id = "00112233445566aa", .folder = memory_dir / "bench" / "run"}, true);
    server = std::make_unique<ShardServer>(folder->path(), kSecret);
    for (std::size_t i = 0; i < bytes; i += 64)
      state[i] = static_cast<std::byte>(i / 64 + static_cast<std::size_t>(rank));
    std::fill(copy.begin(), copy.end(), std::byte{1});  // touched
    const std::uint64_t elements = bytes / kTensors / sizeof(float);
    for (std::size_t i = 0; i < kTensors; ++i) {
      TensorInfo tensor{.name = str("model/t", i), .shape = {static_cast<std::int64_t>(elements * kRanks)}};
      tensors.push_back(tensor);
      slices.push_back(
          {.tensor = std::move(tensor),
           .begin = elements * static_cast<std::uint64_t>(rank),
           .end = elements * static_cast<std::uint64_t>(rank + 1),
           .bytes = std::span(state).subspan(i * elements * sizeof(float), elements * sizeof(float))});
    }
  }

  int rank;
  std::vector<std::byte> state;
  std::vector<std::byte> copy;
  std::shared_ptr<Staging> staging;
  std::unique_ptr<MemoryFolder> folder;
  std::unique_ptr<ShardServer> server;
  std::vector<TensorInfo> tensors;
  std::vector<Slice> slices;
};

struct Round {
  double copy_s = 0;
  double stall_s = 0;
  double whole_s = 0;
};

NodeSavePlan plan_of(const Node& node, const Node& other, std::int64_t step, const std::string& id,
                     const std::vector<std::string>& before, std::uint32_t blocks_crc) {
  NodeSavePlan plan{
      .folder = node.folder->step(step, id),
      .step = step,
      .save_id = id,
      .ranks = kRanks,
      .copies = {{other.rank, "other", other.server->card(), blocks_crc}},
      .secret = kSecret,
      .run_id = node.folder->id(),
      .info = {.step = step, .save_id = id, .ranks = kRanks, .tensors = node.tensors, .trainer_state = "{}"},
      .held = {0, 1},
      .run_folder = node.folder.get()};
  for (std::size_t i = 0; i + 1 < before.size(); ++i)
    plan.outdated.push_back(node.folder->path() / before[i] / str("shard-0000", other.rank, "-of-00002.h5"));
  plan.stays = {plan.folder.filename().string()};
  if (!before.empty()) plan.stays.push_back(before.back());
  return plan;
}

/// Rank 0 is timed, and rank 1 saves beside it as on another machine, after rank 0 has staged.
Round one_round(std::vector<std::unique_ptr<Node>>& nodes, std::int64_t step,
                std::vector<std::string>& before) {
  Round round;
  Node& first = *nodes[0];
  double began = steady_now_s();
  std::memcpy(first.copy.data(), first.state.data(), first.state.size());
  round.copy_s = steady_now_s() - began;
  const std::string id = new_save_id();
  std::vector<std::unique_ptr<RankSave>> shards;
  std::vector<std::unique_ptr<NodeSave>> saves;
  began = steady_now_s();
  for (auto& node : nodes) {
    const double start = steady_now_s();
    SavePlan plan{.folder = node->folder->step(step, id), .in_memory = true};
    std::vector<Path> old;
    for (std::size_t i = 0; i + 1 < before.size(); ++i)
      old.push_back(node->folder->path() / before[i] / str("shard-0000", node->rank, "-of-00002.h5"));
    plan.before_write = [old] {
      for (const Path& path : old) fs::remove_tree(path, Code::kCheckpoint);
    };
    shards.push_back(std::make_unique<RankSave>(plan, plan_shard(node->rank, kRanks, id, node->slices),
                                                node->slices, node->staging));
    shards.back()->stage();
    if (node->rank == 0) round.stall_s = steady_now_s() - start;
  }
  for (auto& node : nodes) {
    const auto other = static_cast<std::size_t>(1 - node->rank);
    saves.push_back(std::make_unique<NodeSave>(
        plan_of(*node, *nodes[other], step, id, before, shards[other]->blocks_crc())));
  }
  for (auto& shard : shards) (void)shard->wait(600);
  for (auto& save : saves) {
    while (save->status().state == NodeSave::State::kRunning)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (!save->status().error.empty()) throw Error(Code::kCheckpoint, save->status().error);
  }
  round.whole_s = steady_now_s() - began;
  before.push_back(step_folder_name(step, id));
  if (before.size() > 2) before.erase(before.begin());
  return round;
}

void run(const Path& root, std::size_t mib, int rounds) {
  std::vector<std::unique_ptr<Node>> nodes;
  for (int rank = 0; rank < kRanks; ++rank) nodes.push_back(std::make_unique<Node>(root, rank, mib << 20));
  std::vector<std::string> before;
  for (int number = 0; number < rounds + 2; ++number) {  // two that touch memory
    const Round round = one_round(nodes, number + 1, before);
    if (number < 2) continue;
    std::cout << str("{\"mib\":", mib, ",\"copy_s\":", round.copy_s, ",\"stall_s\":", round.stall_s,
                     ",\"stall_per_copy\":", round.stall_s / round.copy_s, ",\"whole_s\":", round.whole_s,
                     "}")
              << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: memory_bench FOLDER [MIB PER RANK] [ROUNDS]\n";
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? std::stoul(argv[2]) : 512, argc > 3 ? std::stoi(argv[3]) : 7);
    return 0;
  } catch (const Error& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
