#include "checkpoint/memory/assembly.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/disk.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"
#include "checkpoint/memory/memory_note.h"
#include "checkpoint/memory/shard_check.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

constexpr std::string_view kAssembled = "assembled";
constexpr std::uint64_t kSpare = 1 << 16;  // beside INFO, of which a commit writes the parts
constexpr Code kOwn = Code::kEnvironment;  // of what this node cannot write

/// Nodes in the order in which they are asked: shards are spread over those that have them.
std::vector<int> in_turn(std::vector<int> nodes, int shard) {
  if (nodes.empty()) return nodes;
  std::rotate(nodes.begin(), nodes.begin() + shard % static_cast<int>(nodes.size()), nodes.end());
  return nodes;
}

/// Why a file was had from none of the nodes that were asked. Only damage on each of them is damage: what did
/// not answer may be whole.
class Refusals {
 public:
  const std::string& add(const std::string& text, const Error& error) {
    of_system_ = of_system_ || error.is_of_system();
    return last_ = text;
  }
  /// "<what>: <the last reason>".
  [[nodiscard]] Error error(const std::string& what) const {
    const std::string text = what.empty() ? last_ : str(what, ": ", last_);
    return of_system_ ? Error::of_system(Code::kCheckpoint, text) : Error(Code::kCheckpoint, text);
  }

 private:
  std::string last_;
  bool of_system_ = false;
};

}  // namespace

Assembly::Assembly(const MemoryFolder& folder, const MemoryCandidate& candidate, int node,
                   const std::vector<Source>& sources, const Secret& secret)
    : folder_(&folder), candidate_(&candidate), node_(node), sources_(&sources), secret_(secret) {}

Path Assembly::path() const {
  return folder_->path() / kAssembled / step_folder_name(candidate_->step, candidate_->save_id);
}

Path Assembly::file(int shard) const {
  return path() / shard_file_name(shard, candidate_->ranks());
}

bool Assembly::is_here(const MemoryCandidate::Shard& shard) const {
  return std::ranges::find(shard.nodes, node_) != shard.nodes.end();
}

WantedShard Assembly::wanted(WantedFile file, int shard) const {
  return {.file = file,
          .step = candidate_->step,
          .save_id = candidate_->save_id,
          .rank = shard,
          .ranks = candidate_->ranks()};
}

void Assembly::remove(const MemoryFolder& folder) noexcept {
  remove_memory(folder.path() / kAssembled);
}

std::string Assembly::info() const {
  const auto sound = [&](const std::string& text) {
    return text.size() == candidate_->info_bytes && crc32c(text) == candidate_->info_crc;
  };
  Refusals refusals;
  for (const int node : in_turn(candidate_->info_nodes, node_)) {
    const Source& source = (*sources_)[static_cast<std::size_t>(node)];
    try {
      std::string text;
      if (node == node_) {
        text = read_input(folder_->step(candidate_->step, candidate_->save_id) / kInfoFile, kMaxInfoBytes);
      } else {
        fetch(source.card, secret_, wanted(WantedFile::kInfo, 0), {}, [&](std::span<const std::byte> bytes) {
          text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          if (text.size() > kMaxInfoBytes) throw Error(Code::kCheckpoint, "INFO is too long");
        });
      }
      if (sound(text)) return text;
      throw Error(Code::kCheckpoint, kInfoFile, " is damaged");
    } catch (const Error& e) {
      refusals.add(str(source.host, ": ", e.what()), e);
    }
  }
  throw refusals.error("");
}

// Of a shard that is not here: the index, and a hole in place of everything else.
void Assembly::lay_out(const MemoryCandidate::Shard& shard) const {
  Refusals refusals;
  for (const int node : in_turn(shard.nodes, shard.held.rank)) {
    if (node == node_) continue;
    const Source& source = (*sources_)[static_cast<std::size_t>(node)];
    try {
      fs::NewFile sparse(file(shard.held.rank), kOwn);
      std::uint64_t at = 0;
      fetch(source.card, secret_, wanted(WantedFile::kIndex, shard.held.rank), {},
            [&](std::span<const std::byte> bytes) {
              sparse.write(at, bytes);
              at += bytes.size();
              if (at > kMaxIndexBytes) throw Error(Code::kCheckpoint, "its index is too long");
            });
      if (at < shard.held.bytes) sparse.write(shard.held.bytes - 1, std::array<std::byte, 1>{});
      sparse.close();
      sparse.keep();
      return;
    } catch (const Error& e) {
      if (e.code() == kOwn) throw;  // whichever node is asked
      refusals.add(str(source.host, ": ", e.what()), e);
    }
  }
  throw refusals.error(str("shard ", shard.held.rank, " of step ", candidate_->step,
                           " cannot be had from the memory of another node"));
}

void Assembly::begin() const {
  const CommitInfo whole = parse_info(info(), str(kInfoFile, " of step ", candidate_->step));
  remove(*folder_);
  fs::make_directories(path(), kOwn);
  const Path here = folder_->step(candidate_->step, candidate_->save_id);
  for (const MemoryCandidate::Shard& shard : candidate_->shards) {
    if (!is_here(shard)) {
      lay_out(shard);
      continue;
    }
    const Path from = here / shard_file_name(shard.held.rank, candidate_->ranks());
    if (fs::disk().link(from.c_str(), file(shard.held.rank).c_str()) != 0)
      throw fs::system_error(kOwn, "link", from, errno);
  }
  try {
    // Proves that the shards cover each tensor exactly once, as of a checkpoint on disk.
    (void)commit(path(), whole);
  } catch (const Error& e) {
    if (!e.is_of_system() || memory_left(path()) > 2 * candidate_->info_bytes + kSpare) throw;
    throw Error(kOwn, e.what());
  }
}

void Assembly::fetch_whole(const MemoryCandidate::Shard& shard, int from) const {
  const int rank = shard.held.rank;
  const WantedShard whole = wanted(WantedFile::kShard, rank);
  ShardCheck check(whole, {.index_crc = shard.held.index_crc}, str("shard ", rank, " as it arrived"));
  const fs::Fd to = fs::open_own(file(rank), O_WRONLY, kOwn);
  std::uint64_t at = 0;
  fetch((*sources_)[static_cast<std::size_t>(from)].card, secret_, whole, {},
        [&](std::span<const std::byte> bytes) {
          check.take(bytes);
          fs::write_at(to, at, bytes, kOwn, file(rank));
          at += bytes.size();
        });
  check.finish();
}

void Assembly::bring(int number) const {
  const MemoryCandidate::Shard& shard = candidate_->shards.at(static_cast<std::size_t>(number));
  Refusals refusals;
  if (is_here(shard)) {
    try {
      ShardCheck check(wanted(WantedFile::kShard, number), {.index_crc = shard.held.index_crc},
                       quoted(file(number)));
      read_in_order(file(number), [&](std::span<const std::byte> bytes) { check.take(bytes); });
      return check.finish();
    } catch (const Error& e) {
      log::warn(str("memory of ", (*sources_)[static_cast<std::size_t>(node_)].host, ": ",
                    refusals.add(e.what(), e), "; another node is asked for it"));
    }
    if (fs::disk().unlink(file(number).c_str()) != 0)
      throw fs::system_error(Code::kCheckpoint, "remove", file(number), errno);
    lay_out(shard);
  }
  for (const int node : in_turn(shard.nodes, number)) {
    if (node == node_) continue;
    try {
      return fetch_whole(shard, node);
    } catch (const Error& e) {
      if (e.code() == kOwn) throw;
      log::warn(str("memory of ",
                    refusals.add(str((*sources_)[static_cast<std::size_t>(node)].host, ": ", e.what()), e)));
    }
  }
  throw refusals.error(str("shard ", number, " of step ", candidate_->step, " is sound in no node's memory"));
}

}  // namespace echelon::checkpoint
