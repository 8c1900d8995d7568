#include "train/memory/run_memory.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/memory/memory_note.h"
#include "checkpoint/write/writer.h"
#include "comm/agree.h"
#include "comm/blob_text.h"

namespace echelon {
namespace {

using checkpoint::MemoryCandidate;

constexpr std::int64_t kOld_s = 24 * 3600;  // after which what a killed job left is removed

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

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
  for (const Blob& card : comm.gather_blobs(to_blob(card_text(mine)), "memory services"))
    cards_.push_back(parse_card(to_text(card)));
  if (server_) server_->expect(cards_);
  for (int node = 0; node < layout_.nodes(); ++node) {
    const std::vector<int>& ranks = layout_.ranks_of(node);
    const int server = ranks[layout_.place_of(comm.rank()) % ranks.size()];
    sources_.push_back({.host = layout_.host_of(node), .card = card_of(server)});
  }
}

void RunMemory::open(const CheckpointOptions& options, const RunFolder& folder, const JobInfo& job) {
  std::string told;
  agree(*comm_, "identity of the run", [&] {
    if (comm_->rank() != 0) return;
    const auto identity = checkpoint::identify_run(folder.root(), options.memory_dir);
    told = str(identity.id, '\n', secret_text(new_secret()), '\n', identity.folder.string());
  });
  const auto lines = lines_of(to_text(comm_->gather_blobs(to_blob(told), "identity of the run").at(0)));
  if (lines.size() != 3) throw Error(Code::kPeer, "rank 0's identity of the run cannot be read");
  secret_ = parse_secret(lines[1]);
  const auto enter = [&] {
    in_context(str("memory checkpoints on ", job.host), [&] {
      folder_ = std::make_unique<checkpoint::MemoryFolder>(
          checkpoint::MemoryIdentity{.id = lines[0], .folder = lines[2]}, leads());
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
  std::vector<std::string> problems;
  std::string offer;
  agree(*comm_, "look into memory", [&] {
    if (!leads()) return;
    try {
      const auto found = checkpoint::find_notes(folder_->path(), folder_->id(), problems);
      for (const auto& one : found) {
        if (!one.problem.empty()) problems.push_back(one.problem);
      }
      offer = checkpoint::offer_text(found);
    } catch (const Error& e) {
      if (!e.is_of_system()) throw;
      throw Error(Code::kPeer, str("memory of ", layout_.host_of(node()), ": ", e.what(),
                                   "; this says nothing about what it holds, and nothing is removed; start "
                                   "again, or empty it with echelon-ckpt gc"));
    }
  });
  const std::vector<Blob> offers = comm_->gather_blobs(to_blob(offer), "memory checkpoints");
  const std::vector<Blob> told = comm_->gather_blobs(to_blob(join(problems, "\n")), "faults of memory");
  std::vector<std::vector<checkpoint::MemoryNote>> notes;
  std::vector<std::string> hosts;
  const bool lead = comm_->rank() == 0;
  for (int node = 0; node < layout_.nodes(); ++node) {
    const auto leader = static_cast<std::size_t>(layout_.ranks_of(node).front());
    notes.push_back(checkpoint::parse_offer(to_text(offers[leader])));
    hosts.push_back(layout_.host_of(node));
    if (!lead) continue;
    for (const std::string& problem : lines_of(to_text(told[leader])))
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
  std::vector<std::string> words;
  for (const int shard : shards) words.push_back(str(shard));
  const auto needed = comm_->gather_blobs(to_blob(join(words, " ")), "shards that are needed");
  std::set<int> of_node;
  for (const int rank : layout_.ranks_of(node())) {
    std::istringstream numbers(to_text(needed[static_cast<std::size_t>(rank)]));
    for (int shard = 0; numbers >> shard;) of_node.insert(shard);
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

}  // namespace echelon
