#include "checkpoint/memory/offers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/str.h"

namespace echelon::checkpoint {
namespace {

/// Notes of one save. Nodes must agree about everything but the shards they hold.
struct Save {
  const MemoryNote* first = nullptr;
  MemoryCandidate candidate;
  std::vector<std::string> hosts;
  std::string conflict;
};

bool same_save(const MemoryNote& a, const MemoryNote& b) {
  return a.run_id == b.run_id && a.ranks == b.ranks && a.info_bytes == b.info_bytes &&
         a.info_crc == b.info_crc && a.newest_commit == b.newest_commit;
}

void add(Save& save, const MemoryNote& note, int node, const std::string& host) {
  MemoryCandidate& whole = save.candidate;
  if (save.first == nullptr) {
    save.first = &note;
    whole = {.step = note.step,
             .save_id = note.save_id,
             .info_bytes = note.info_bytes,
             .info_crc = note.info_crc,
             .newest_commit = note.newest_commit,
             .shards = std::vector<MemoryCandidate::Shard>(static_cast<std::size_t>(note.ranks))};
  }
  save.hosts.push_back(host);
  if (!same_save(*save.first, note)) {
    save.conflict = str(save.hosts.front(), " and ", host, " describe it differently");
    return;
  }
  whole.info_nodes.push_back(node);
  for (const HeldShard& shard : note.shards) {
    MemoryCandidate::Shard& known = whole.shards[static_cast<std::size_t>(shard.rank)];
    if (known.nodes.empty()) known.held = shard;
    if (known.held == shard) {
      known.nodes.push_back(node);
    } else {
      save.conflict = str("the copies of shard ", shard.rank, " differ");
    }
  }
}

/// Why a save does not count; empty if it does.
std::string refusal(const Save& save) {
  if (!save.conflict.empty()) return save.conflict;
  std::vector<std::string> lost;
  for (std::size_t rank = 0; rank < save.candidate.shards.size(); ++rank) {
    if (save.candidate.shards[rank].nodes.empty()) lost.push_back(str(rank));
  }
  if (lost.empty()) return "";
  constexpr std::size_t kShown = 8;
  const std::size_t count = lost.size();
  lost.resize(std::min(count, kShown));
  return str(count == 1 ? "shard " : "shards ", join(lost, ", "), count > kShown ? ", ..." : "", " of ",
             save.candidate.shards.size(), " are on no node of this job");
}

}  // namespace

MemoryChoice choose(const std::vector<std::vector<MemoryNote>>& offers,
                    const std::vector<std::string>& hosts) {
  std::map<std::pair<std::int64_t, std::string>, Save> saves;
  for (std::size_t node = 0; node < offers.size(); ++node) {
    for (const MemoryNote& note : offers[node])
      add(saves[{note.step, note.save_id}], note, static_cast<int>(node), hosts[node]);
  }
  MemoryChoice choice;
  for (auto save = saves.rbegin(); save != saves.rend(); ++save) {
    const std::string why = refusal(save->second);
    if (why.empty()) {
      choice.whole.push_back(std::move(save->second.candidate));
    } else {
      choice.refused.push_back(str("step ", save->first.first, " (save ", save->first.second,
                                   ") in the memory of ", join(save->second.hosts, ", "), ": ", why));
    }
  }
  return choice;
}

}  // namespace echelon::checkpoint
