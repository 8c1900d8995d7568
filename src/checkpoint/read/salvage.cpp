#include "checkpoint/read/salvage.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files/fs.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"
#include "checkpoint/read/reader.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

/// Runs `body` and returns whether it succeeded. The text of a checkpoint error becomes `problem`.
template <class Body>
bool succeeds(std::string& problem, Body&& body) {
  try {
    body();
    return true;
  } catch (const Error& e) {
    if (e.code() != Code::kCheckpoint) throw;
    problem = e.what();
    return false;
  }
}

/// Files in `folder` with the name of a shard: by number of ranks, then rank.
std::map<int, std::map<int, std::string>> shard_files(const Path& folder) {
  std::map<int, std::map<int, std::string>> found;
  for (const Path& path : fs::list_folder(folder, Code::kCheckpoint)) {
    const std::string name = path.filename().string();
    int rank = 0;
    int ranks = 0;
    if (std::sscanf(name.c_str(), "shard-%5d-of-%5d.h5", &rank, &ranks) != 2) continue;
    if (rank >= 0 && rank < ranks && name == shard_file_name(rank, ranks)) found[ranks][rank] = name;
  }
  return found;
}

/// A substitute for a missing or damaged manifest, from the folder's name and the files in it.
Manifest guess_manifest(const Path& folder) {
  const auto name = parse_step_folder(real_path(folder).filename().string());
  if (!name) {
    throw Error(Code::kCheckpoint, "'", folder.string(), "' has no valid manifest and is not named like a ",
                "step folder; rename it to its original name, step-SSSSSSSSS.IIIIIIII");
  }
  Manifest manifest{.step = name->step, .save_id = name->save_id};
  const auto files = shard_files(folder);
  if (files.empty()) throw Error(Code::kCheckpoint, "no shard in '", folder.string(), "'");
  // Shards of several world sizes can only come from mixed-up folders: take the size with the most files.
  const auto most = std::ranges::max_element(
      files, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  manifest.shards.resize(static_cast<std::size_t>(most->first));
  for (int rank = 0; rank < most->first; ++rank)
    manifest.shards[static_cast<std::size_t>(rank)].file = shard_file_name(rank, most->first);
  return manifest;
}

void load_shards(Salvage& result, bool sound) {
  Manifest& manifest = result.contents.manifest;
  for (std::size_t rank = 0; rank < manifest.shards.size(); ++rank) {
    ManifestShard& shard = manifest.shards[rank];
    std::string problem;
    const bool loaded = succeeds(problem, [&] {
      if (!sound) shard = describe_shard(result.contents.folder, shard.file);
      result.contents.shards.push_back(load_shard_index(result.contents.folder, manifest, rank));
    });
    if (!loaded) result.lost_shards.push_back(std::move(problem));
  }
  if (result.contents.shards.empty())
    throw Error(Code::kCheckpoint, "nothing can be salvaged: " + result.lost_shards.front());
}

/// Without a manifest: every tensor that some index names.
std::vector<TensorInfo> tensors_named(const std::vector<ShardIndex>& shards) {
  std::map<std::string, TensorInfo> tensors;
  for (const ShardIndex& shard : shards) {
    for (const ShardEntry& entry : shard.entries) tensors.emplace(entry.tensor.name, entry.tensor);
  }
  std::vector<TensorInfo> list;
  for (auto& [name, tensor] : tensors) list.push_back(std::move(tensor));
  return list;
}

/// The shards with the entries of `tensors` only.
std::vector<ShardIndex> only(const std::vector<ShardIndex>& shards, const std::vector<TensorInfo>& tensors) {
  std::set<std::string_view> names;
  for (const TensorInfo& tensor : tensors) names.insert(tensor.name);
  std::vector<ShardIndex> kept = shards;
  for (ShardIndex& shard : kept) {
    std::erase_if(shard.entries,
                  [&](const ShardEntry& entry) { return names.count(entry.tensor.name) == 0; });
  }
  return kept;
}

/// Keeps only tensors for which `check` does not throw.
template <class Check>
void sift(Salvage& result, Check&& check) {
  Manifest& manifest = result.contents.manifest;
  std::vector<TensorInfo> good;
  std::vector<TensorDigest> digests;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorInfo& tensor = manifest.tensors[i];
    std::string problem;
    if (!succeeds(problem, [&] { check(tensor); })) {
      result.lost.push_back({tensor.name, std::move(problem)});
      continue;
    }
    good.push_back(tensor);
    if (!manifest.digests.empty()) digests.push_back(manifest.digests[i]);
  }
  manifest.tensors = std::move(good);
  manifest.digests = std::move(digests);
  result.contents.shards = only(result.contents.shards, manifest.tensors);
}

}  // namespace

Salvage salvage(const Path& folder, const SalvageProgress& progress) {
  Salvage result;
  result.contents.folder = folder;
  const bool sound = succeeds(result.problem, [&] { result.contents.manifest = load_manifest(folder); });
  if (!sound) result.contents.manifest = guess_manifest(folder);
  load_shards(result, sound);
  if (!sound) result.contents.manifest.tensors = tensors_named(result.contents.shards);

  sift(result, [&](const TensorInfo& tensor) {
    const std::vector<TensorInfo> one{tensor};
    (void)digests_of(one, only(result.contents.shards, one));
  });
  const std::uint64_t total = byte_count(result.contents.manifest.tensors);
  std::uint64_t done = 0;
  const Reader reader(result.contents);
  sift(result, [&](const TensorInfo& tensor) {
    reader.read_in_parts(tensor.name, [&](std::span<const std::byte> part) {
      done += part.size();
      if (progress) progress(done, total);
    });
  });
  std::ranges::sort(result.lost, [](const auto& a, const auto& b) { return a.name < b.name; });
  return result;
}

}  // namespace echelon::checkpoint
