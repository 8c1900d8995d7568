#pragma once
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/files/fs.h"
#include "base/net/node_layout.h"
#include "base/str.h"
#include "checkpoint/format/names.h"
#include "checkpoint/memory/assembly.h"
#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/memory/memory_note.h"
#include "checkpoint/memory/node_save.h"
#include "checkpoint/memory/offers.h"
#include "checkpoint/write/rank_save.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/tiny_run.h"

/// A job of several nodes in one process: each node has a memory folder of its own, each rank a service.
namespace echelon::checkpoint::test {

inline constexpr Secret kSecret{'0', '1', '2', '3', '4', '5', '6', '7',
                                '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};

using Hosts = std::vector<std::string>;

class MemoryNodes {
 public:
  /// `hosts`: of every rank. Folders of earlier objects in `root` are found again by the name of the host.
  MemoryNodes(const Path& root, const Hosts& hosts)
      : root_(root), layout_(hosts), run_{.root = "/nowhere", .ranks = static_cast<int>(hosts.size())} {
    for (int node = 0; node < layout_.nodes(); ++node) {
      std::filesystem::create_directories(root_ / layout_.host_of(node));
      folders_.push_back(std::make_unique<MemoryFolder>(
          MemoryIdentity{.id = "00112233445566aa", .folder = folder_of(root_, layout_.host_of(node))}, true));
    }
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      const int node = layout_.node_of(rank);
      servers_.push_back(
          std::make_unique<ShardServer>(folders_[static_cast<std::size_t>(node)]->path(), kSecret));
    }
    for (int node = 0; node < layout_.nodes(); ++node) {
      const int rank = layout_.ranks_of(node).front();
      sources_.push_back({layout_.host_of(node), card_of(rank)});
    }
  }

  [[nodiscard]] static Path folder_of(const Path& root, const std::string& host) {
    return root / host / str("echelon-", ::geteuid()) / "tiny-0123456789abcdef";
  }
  [[nodiscard]] const NodeLayout& layout() const { return layout_; }
  [[nodiscard]] const MemoryFolder& folder(int node) const {
    return *folders_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] ServiceCard card_of(int rank) const {
    ServiceCard card = servers_[static_cast<std::size_t>(rank)]->card();
    card.addresses.clear();  // over loopback only
    return card;
  }
  [[nodiscard]] Path step(int node, std::int64_t step) const {
    return folder(node).step(step, TinyRun::save_id(step));
  }
  [[nodiscard]] Path shard(int node, std::int64_t step_, int rank) const {
    return step(node, step_) / shard_file_name(rank, layout_.ranks());
  }
  /// No longer answers: as a rank that has died.
  void silence(int rank) { servers_[static_cast<std::size_t>(rank)].reset(); }

  [[nodiscard]] NodeSavePlan plan(std::int64_t step_, int rank, const std::vector<std::string>& stays,
                                  const std::vector<std::optional<std::uint32_t>>& checksums) const {
    const int node = layout_.node_of(rank);
    NodeSavePlan plan{.folder = step(node, step_),
                      .info = commit_info(run_.example(step_)),
                      .secret = kSecret,
                      .timeout_s = 30};
    for (const int other : layout_.copied_by(rank)) {
      const ServiceCard card = servers_[static_cast<std::size_t>(other)]
                                   ? card_of(other)
                                   : ServiceCard{.port = 1, .addresses = {"127.0.0.1"}};
      plan.copies.push_back(
          {other, layout_.host_of(layout_.node_of(other)), card, checksums[static_cast<std::size_t>(other)]});
    }
    if (!layout_.leads(rank)) return plan;
    plan.run_id = folder(node).id();
    plan.held = layout_.held_by(node);
    plan.run_folder = &folder(node);
    plan.stays = stays;
    plan.stays.push_back(plan.folder.filename().string());
    return plan;
  }

  /// One save by all ranks at once; returns the errors of those that failed.
  std::vector<std::string> save(std::int64_t step_, const std::vector<std::string>& stays = {}) {
    const Example what = run_.example(step_);
    std::map<std::string, std::vector<std::byte>> contents;
    for (const TensorInfo& tensor : what.tensors) contents[tensor.name] = TinyRun::content(tensor, step_);
    std::vector<std::unique_ptr<RankSave>> shards;
    std::vector<std::unique_ptr<NodeSave>> nodes;
    std::vector<std::optional<std::uint32_t>> checksums;
    std::vector<std::string> errors;
    const auto attempt = [&](const std::function<void()>& body) {
      if (const std::string error = error_of(body); !error.empty()) errors.push_back(error);
    };
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      checksums.emplace_back();
      attempt([&] {
        if (layout_.leads(rank)) folders_[static_cast<std::size_t>(layout_.node_of(rank))]->renew();
        const std::vector<Slice> slices = slices_of(what, rank, contents);
        shards.push_back(std::make_unique<RankSave>(
            SavePlan{.folder = step(layout_.node_of(rank), step_), .timeout_s = 30, .in_memory = true},
            plan_shard(rank, layout_.ranks(), what.save_id, slices), slices, std::make_shared<Staging>(0)));
        shards.back()->stage();
        checksums.back() = shards.back()->blocks_crc();
      });
    }
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      if (!checksums[static_cast<std::size_t>(rank)]) continue;
      attempt([&] { nodes.push_back(std::make_unique<NodeSave>(plan(step_, rank, stays, checksums))); });
    }
    for (const auto& shard : shards) {
      const auto status = shard->wait(60);
      if (status.state != RankSave::State::kDone) errors.push_back("shard: " + status.error);
    }
    for (const auto& node : nodes) {
      while (node->status().state == NodeSave::State::kRunning)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (node->status().state == NodeSave::State::kFailed) errors.push_back(node->status().error);
    }
    return errors;
  }

  [[nodiscard]] MemoryChoice choice() const {
    std::vector<std::vector<MemoryNote>> offers;
    std::vector<std::string> hosts;
    std::vector<std::string> left_out;
    for (int node = 0; node < layout_.nodes(); ++node) {
      auto& of_node = offers.emplace_back();
      for (const FoundNote& found : find_notes(folder(node).path(), folder(node).id(), left_out))
        of_node.push_back(found.note);
      hosts.push_back(layout_.host_of(node));
    }
    return choose(offers, hosts);
  }
  [[nodiscard]] std::vector<std::int64_t> whole_steps() const {
    return mapped(choice().whole, &MemoryCandidate::step);
  }

  /// From now on, the files of that node are asked for there.
  void redirect(int node, const ServiceCard& card) { sources_[static_cast<std::size_t>(node)].card = card; }

  [[nodiscard]] Assembly assembly(int node, const MemoryCandidate& candidate) const {
    return {folder(node), candidate, node, sources_, kSecret};
  }
  /// What is wrong with what a node puts together from `candidate`, or "": every byte is read.
  [[nodiscard]] std::string wrong_on(int node, const MemoryCandidate& candidate) const {
    const Assembly whole = assembly(node, candidate);
    std::string wrong = error_of([&] {
      whole.begin();
      for (int shard = 0; shard < candidate.ranks(); ++shard) whole.bring(shard);
    });
    if (wrong.empty()) wrong = TinyRun::wrong_in(whole.path());
    Assembly::remove(folder(node));
    return wrong;
  }

 private:
  Path root_;
  NodeLayout layout_;
  TinyRun run_;
  std::vector<std::unique_ptr<MemoryFolder>> folders_;  // by node
  std::vector<std::unique_ptr<ShardServer>> servers_;   // by rank
  std::vector<Assembly::Source> sources_;               // by node
};

/// Nodes in a folder of their own with a whole save of step 10.
struct SavedNodes : private TempDir, MemoryNodes {
  explicit SavedNodes(const Hosts& hosts) : MemoryNodes(path(), hosts) { EXPECT_EQ(save(10), Hosts{}); }
};

/// Leaves the save of step 10 by a job that is gone.
inline void save_on(const Path& root, const Hosts& hosts) {
  MemoryNodes nodes(root, hosts);
  EXPECT_EQ(nodes.save(10), Hosts{});
}

}  // namespace echelon::checkpoint::test
