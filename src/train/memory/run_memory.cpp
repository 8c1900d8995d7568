#include "train/memory/run_memory.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/str.h"
#include "checkpoint/format/names.h"
#include "checkpoint/memory/memory_note.h"
#include "comm/agree.h"
#include "comm/exchange.h"

namespace echelon {
namespace {

using checkpoint::MemoryCandidate;

constexpr std::int64_t kOld_s = 24 * 3600;  // after which what a killed job left is removed

/// The decisions of rank 0 for all ranks.
struct Opened {
  std::string id;
  std::string folder;
  Secret secret{};
  auto fields() { return std::tie(id, folder, secret); }
};

/// The memory checkpoints that the first rank of a node finds.
struct Offer {
  std::vector<std::string> notes;
  std::vector<std::string> problems;
  auto fields() { return std::tie(notes, problems); }
};

}  // namespace

RunMemory::RunMemory(const CheckpointOptions& options, const RunFolder& folder, const JobInfo& job,
                     Communicator& comm)
    : comm_(&comm), layout_(job.hosts) {
  open(options, folder, job);
  ServiceCard mine;
  if (layout_.nodes() > 1) {
    try {
      server_ = std::make_unique<checkpoint::ShardServer>(folder_->path(), secret_,
                                                          GuardedListener::places_for(job.hosts));
      mine = server_->card();
    } catch (const Error& e) {
      log::warn(e.what());
    }
  }
  cards_ = gather_values(comm, mine, "memory services");
  if (server_) server_->expect(cards_);
  for (int node = 0; node < layout_.nodes(); ++node) {
    const std::vector<int>& ranks = layout_.ranks_of(node);
    const int server = ranks[layout_.place_of(comm.rank()) % ranks.size()];
    sources_.push_back({.host = layout_.host_of(node), .card = card_of(server)});
  }
}

void RunMemory::open(const CheckpointOptions& options, const RunFolder& folder, const JobInfo& job) {
  Opened opened;
  agree(*comm_, "identity of the run", [&] {
    if (comm_->rank() != 0) return;
    const auto identity = checkpoint::identify_run(folder.root(), options.memory_dir);
    opened = {.id = identity.id, .folder = identity.folder.string(), .secret = new_secret()};
  });
  opened = broadcast_value(*comm_, opened, "identity of the run");
  secret_ = opened.secret;
  const auto enter = [&] {
    in_context(str("memory checkpoints on ", job.host), [&] {
      folder_ = std::make_unique<checkpoint::MemoryFolder>(
          checkpoint::MemoryIdentity{.id = opened.id, .folder = opened.folder}, leads());
    });
  };
  agree(*comm_, "memory of the nodes", [&] {
    if (!leads()) return;
    enter();
    checkpoint::Assembly::remove(*folder_);
    for (const auto& path : checkpoint::remove_old_memory(options.memory_dir, kOld_s))
      log::note(str("'", path.string(), "', memory checkpoints that an earlier job left, was removed"));
  });
  agree(*comm_, "memory of the ranks", [&] {
    if (!leads()) enter();
  });
}

std::vector<MemoryCandidate> RunMemory::candidates() {
  Offer mine;
  agree(*comm_, "look into memory", [&] {
    if (!leads()) return;
    try {
      const auto found = checkpoint::find_notes(folder_->path(), folder_->id(), mine.problems);
      for (const auto& one : found) {
        mine.notes.push_back(checkpoint::note_text(one.note));
        if (!one.problem.empty()) mine.problems.push_back(one.problem);
      }
    } catch (const Error& e) {
      if (!e.is_of_system()) throw;
      throw Error(Code::kPeer, "memory of ", layout_.host_of(node()), ": ", e.what(),
                  "; this says nothing about what it holds, and nothing is removed; start "
                  "again, or empty it with echelon-ckpt gc");
    }
  });
  const auto offers = gather_values(*comm_, mine, "memory checkpoints");
  std::vector<std::vector<checkpoint::MemoryNote>> notes;
  std::vector<std::string> hosts;
  const bool lead = comm_->rank() == 0;
  for (int node = 0; node < layout_.nodes(); ++node) {
    const Offer& offer = offers[static_cast<std::size_t>(layout_.ranks_of(node).front())];
    auto& of_node = notes.emplace_back();
    for (const std::string& note : offer.notes)
      of_node.push_back(checkpoint::parse_note(note, "a node's list of its memory"));
    hosts.push_back(layout_.host_of(node));
    if (!lead) continue;
    for (const std::string& problem : offer.problems)
      log::warn(str("memory of ", hosts.back(), ": ", problem));
  }
  checkpoint::MemoryChoice choice = checkpoint::choose(notes, hosts);
  if (lead) {
    for (const std::string& why : choice.refused) log::warn(str("memory checkpoint not used: ", why));
  }
  return std::move(choice.whole);
}

checkpoint::Assembly RunMemory::assembly(const MemoryCandidate& candidate) const {
  return {*folder_, candidate, node(), sources_, secret_};
}

std::vector<int> RunMemory::share_of(const std::vector<int>& shards) {
  const auto needed = gather_values(*comm_, shards, "shards that are needed");
  std::set<int> of_node;
  for (const int rank : layout_.ranks_of(node())) {
    const std::vector<int>& theirs = needed[static_cast<std::size_t>(rank)];
    of_node.insert(theirs.begin(), theirs.end());
  }
  std::vector<int> mine;
  const std::size_t ranks = layout_.ranks_of(node()).size();
  std::size_t place = 0;
  for (const int shard : of_node) {
    if (place++ % ranks == layout_.place_of(comm_->rank())) mine.push_back(shard);
  }
  return mine;
}

std::string RunMemory::holders(const MemoryCandidate& candidate) const {
  std::set<int> nodes;
  for (const auto& shard : candidate.shards) nodes.insert(shard.nodes.begin(), shard.nodes.end());
  constexpr std::size_t kShown = 16;
  std::vector<std::string> names;
  for (const int node : nodes) {
    if (names.size() == kShown) {
      names.emplace_back("...");
      break;
    }
    names.push_back(layout_.host_of(node));
  }
  return str(nodes.size() == 1 ? "node " : "nodes ", join(names, ", "));
}

void RunMemory::resumed_from(const MemoryCandidate* candidate) {
  resumed_name_ =
      candidate == nullptr ? "" : checkpoint::step_folder_name(candidate->step, candidate->save_id);
  if (leads()) folder_->keep_only({resumed_name_});
}

void RunMemory::finish() {
  server_.reset();
  comm_->barrier("memory checkpoints end");  // no rank writes there any more
  if (leads()) folder_->remove();
}

std::unique_ptr<RunMemory> open_memory(const CheckpointOptions& options, const RunFolder& folder,
                                       const JobInfo& job, Communicator& comm) {
  if (options.memory_every_steps == 0) return nullptr;
  try {
    return std::make_unique<RunMemory>(options, folder, job, comm);
  } catch (const Error& error) {
    if (error.code() == Code::kPeer || !restarts_in_place()) throw;
    if (!error.is_reported())
      log::warn(str(error.what(),
                    "; until the next start there are no memory checkpoints, those that nodes "
                    "hold are not used or removed, and checkpoints on disk go on"));
    return nullptr;
  }
}

}  // namespace echelon
