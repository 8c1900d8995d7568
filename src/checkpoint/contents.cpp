#include "checkpoint/contents.h"

#include <algorithm>
#include <map>

#include "base/crc32c.h"
#include "base/crc64.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/bytes.h"
#include "checkpoint/files.h"
#include "checkpoint/geometry.h"
#include "checkpoint/json.h"
#include "checkpoint/names.h"
#include "checkpoint/reader.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

std::uint32_t crc_of(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text)));
}

std::string quoted(const Path& path) {
  return str('\'', path.string(), '\'');
}

// "runs/x/" has an empty last part.
std::string last_part(const Path& folder) {
  return folder.filename().empty() ? folder.parent_path().filename().string() : folder.filename().string();
}

}  // namespace

Manifest load_manifest(const Path& folder) {
  const Path commit_path = folder / kCommitFile;
  if (!entry_exists(commit_path)) {
    throw Error(Code::kCheckpoint,
                str("checkpoint ", quoted(folder),
                    entry_exists(folder) ? " was never committed (it has no file COMMIT): its "
                                           "save did not finish; use an earlier one"
                                         : " does not exist"));
  }
  const Commit commit = parse_commit(read_input(commit_path, kMaxCommitBytes), quoted(commit_path));
  const Path path = folder / kManifestFile;
  const std::string text = read_input(path, kMaxManifestBytes);
  if (text.size() != commit.manifest_bytes || crc_of(text) != commit.manifest_crc) {
    throw Error(Code::kCheckpoint, str(quoted(path), " is damaged: ", text.size(), " bytes with checksum ",
                                       checksum_text(crc_of(text)), ", COMMIT vouches for ",
                                       commit.manifest_bytes, " with ", checksum_text(commit.manifest_crc)));
  }
  Manifest manifest = parse_manifest(text, quoted(path));
  if (manifest.step != commit.step || manifest.save_id != commit.save_id ||
      manifest.format_minor != commit.format_minor) {
    throw Error(Code::kCheckpoint,
                str(quoted(commit_path), " is of step ", commit.step, ", save ", commit.save_id, ", format ",
                    kFormatMajor, '.', commit.format_minor, ", but MANIFEST.json of step ", manifest.step,
                    ", save ", manifest.save_id, ", format ", kFormatMajor, '.', manifest.format_minor));
  }
  const auto name = parse_step_folder(last_part(folder));
  if (name && (name->step != manifest.step || name->save_id != manifest.save_id)) {
    throw Error(Code::kCheckpoint,
                str("folder ", quoted(folder), " holds the checkpoint ",
                    step_folder_name(manifest.step, manifest.save_id), ": it was renamed or swapped"));
  }
  return manifest;
}

namespace {

/// The user block of a shard that must have `bytes` bytes (0: any number).
std::vector<std::byte> read_index(const Path& path, const std::string& what, std::uint64_t bytes) {
  const InputFile file = open_input(path);
  if (bytes != 0 && file.bytes != bytes) {
    throw Error(Code::kCheckpoint, str(what, " has ", file.bytes, " bytes, expected ", bytes, ": it was ",
                                       file.bytes < bytes ? "cut short" : "extended"));
  }
  std::vector<std::byte> block(std::min<std::uint64_t>(file.bytes, kIndexHeaderBytes));
  fs::read_at(file.fd, 0, block, Code::kCheckpoint, path);
  const IndexHead head = decode_index_head(block, what);
  if (head.file_bytes != file.bytes || head.index_bytes > file.bytes) {
    throw Error(Code::kCheckpoint,
                str(what, ": its index is damaged (states a file of ", head.file_bytes, " bytes)"));
  }
  block.resize(head.index_bytes);
  fs::read_at(file.fd, 0, block, Code::kCheckpoint, path);
  return block;
}

}  // namespace

ManifestShard describe_shard(const Path& folder, const std::string& name) {
  const std::vector<std::byte> block = read_index(folder / name, str("shard ", quoted(folder / name)), 0);
  return {.file = name,
          .bytes = decode_index_head(std::span(block).first(kIndexHeaderBytes), name).file_bytes,
          .index_crc = index_crc(block)};
}

ShardIndex load_shard_index(const Path& folder, const ManifestShard& shard, int rank, int ranks,
                            const std::string& save_id) {
  const Path path = folder / shard.file;
  if (!entry_exists(path)) {
    throw Error(Code::kCheckpoint, str("shard ", quoted(path), " (rank ", rank, ") is missing"));
  }
  const std::string what = str("shard ", quoted(path));
  const std::vector<std::byte> block = read_index(path, what, shard.bytes);
  ShardIndex index = decode_index(block, what);
  if (index.save_id != save_id) {
    throw Error(Code::kCheckpoint,
                str(what, " belongs to save ", index.save_id, ", not to ", save_id, ": a stale file"));
  }
  if (index.rank != rank || index.ranks != ranks) {
    throw Error(Code::kCheckpoint, str(what, " is of rank ", index.rank, " of ", index.ranks,
                                       ", expected rank ", rank, " of ", ranks, ": files were swapped"));
  }
  if (index_crc(block) != shard.index_crc) {
    throw Error(Code::kCheckpoint,
                str(what, ": its index (bytes 0 to ", block.size(), ") is not the one that was committed"));
  }
  return index;
}

void check_shards_cover(const std::vector<TensorInfo>& tensors, const std::vector<ShardIndex>& shards) {
  std::map<std::string_view, std::pair<const TensorInfo*, std::vector<Range>>> pieces;
  for (const TensorInfo& tensor : tensors) pieces[tensor.name].first = &tensor;
  for (const ShardIndex& shard : shards) {
    for (const ShardEntry& entry : shard.entries) {
      const auto found = pieces.find(entry.tensor.name);
      if (found == pieces.end()) {
        throw Error(Code::kCheckpoint, str("rank ", shard.rank, " stores tensor '", entry.tensor.name,
                                           "', which the checkpoint does not have"));
      }
      const TensorInfo& tensor = *found->second.first;
      if (entry.tensor.dtype != tensor.dtype || entry.tensor.shape != tensor.shape) {
        throw Error(Code::kCheckpoint,
                    str("rank ", shard.rank, " stores tensor '", tensor.name, "' as ",
                        name_of(entry.tensor.dtype), ' ', shape_text(entry.tensor.shape), ", expected ",
                        name_of(tensor.dtype), ' ', shape_text(tensor.shape)));
      }
      found->second.second.push_back({entry.begin, entry.end, shard.rank});
    }
  }
  for (auto& [name, tensor] : pieces)
    prove_coverage(std::string(name), element_count(*tensor.first), tensor.second);
}

std::vector<TensorDigest> digests_of(const std::vector<TensorInfo>& tensors,
                                     const std::vector<ShardIndex>& shards) {
  std::map<std::string_view, std::vector<const ShardEntry*>> pieces;
  for (const ShardIndex& shard : shards) {
    for (const ShardEntry& entry : shard.entries) pieces[entry.tensor.name].push_back(&entry);
  }
  std::vector<TensorDigest> digests;
  for (const TensorInfo& tensor : tensors) {
    std::vector<const ShardEntry*>& parts = pieces[tensor.name];
    std::sort(parts.begin(), parts.end(),
              [](const ShardEntry* a, const ShardEntry* b) { return a->begin < b->begin; });
    TensorDigest digest;
    for (const ShardEntry* part : parts) {
      digest.crc = crc32c_combine(digest.crc, part->crc, part->bytes);
      digest.fingerprint = crc64_combine(digest.fingerprint, part->fingerprint, part->bytes);
    }
    digests.push_back(digest);
  }
  return digests;
}

void check_digests(const Manifest& manifest, const std::vector<ShardIndex>& shards) {
  if (manifest.digests.empty()) return;
  const std::vector<TensorDigest> found = digests_of(manifest.tensors, shards);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == manifest.digests[i]) continue;
    throw Error(Code::kCheckpoint, str("tensor '", manifest.tensors[i].name,
                                       "': the checksums of its pieces do not make up that of the manifest"));
  }
}

Contents load_contents(const Path& folder) {
  Contents contents{.folder = folder, .manifest = load_manifest(folder)};
  const Manifest& manifest = contents.manifest;
  const int ranks = static_cast<int>(manifest.shards.size());
  for (int rank = 0; rank < ranks; ++rank) {
    contents.shards.push_back(load_shard_index(folder, manifest.shards[static_cast<std::size_t>(rank)], rank,
                                               ranks, manifest.save_id));
  }
  in_context(str("checkpoint ", quoted(folder)), [&] {
    check_shards_cover(manifest.tensors, contents.shards);
    check_digests(manifest, contents.shards);
  });
  return contents;
}

bool is_step_folder(const Path& folder) {
  return parse_step_folder(last_part(folder)).has_value() || entry_exists(folder / kCommitFile) ||
         entry_exists(folder / kManifestFile);
}

Path checkpoints_folder(const Path& folder) {
  const Path inside = folder / "checkpoints";
  return is_folder(inside) ? inside : folder;
}

namespace {

/// Commits of a run or checkpoints folder, newest first, damaged ones included.
std::vector<Found> commits_of(const Path& folder) {
  if (!is_folder(folder)) {
    throw Error(Code::kCheckpoint, str("no checkpoint ", quoted(folder),
                                       ": there is no such folder; name a run folder or a step folder"));
  }
  warn_of_linked_steps(checkpoints_folder(folder));
  std::vector<Found> commits = list(checkpoints_folder(folder));
  std::erase_if(commits, [](const Found& found) { return !found.committed && found.problem.empty(); });
  if (commits.empty()) {
    throw Error(Code::kCheckpoint, str("no committed checkpoint in ", quoted(checkpoints_folder(folder)),
                                       "; name a run folder or a step folder"));
  }
  std::reverse(commits.begin(), commits.end());
  return commits;
}

}  // namespace

Path newest_commit(const Path& folder) {
  return is_step_folder(folder) ? folder : commits_of(folder).front().folder;
}

Contents open_newest(const Path& folder) {
  if (is_step_folder(folder)) return load_contents(folder);
  std::string first_problem;
  for (const Found& found : commits_of(folder)) {
    try {
      return load_contents(found.folder);
    } catch (const Error& e) {
      if (first_problem.empty()) first_problem = e.what();
      log::warn(str("checkpoint ", quoted(found.folder),
                    " is DAMAGED and passed over, trying the one before it: ", e.what()));
    }
  }
  throw Error(Code::kCheckpoint, str("no whole checkpoint in ", quoted(folder), "; newest: ", first_problem));
}

std::string load_attachment(const Contents& contents, const std::string& name) {
  const auto found = contents.manifest.attachments.find(name);
  if (found == contents.manifest.attachments.end()) {
    throw Error(Code::kCheckpoint,
                str("checkpoint ", quoted(contents.folder), " has no attachment '", name, "'"));
  }
  const Path path = contents.folder / name;
  std::string content = read_input(path, kMaxAttachmentBytes);
  if (content.size() != found->second.bytes || crc_of(content) != found->second.crc) {
    throw Error(Code::kCheckpoint,
                str("attachment ", quoted(path), " is damaged: its size or checksum differs"));
  }
  return content;
}

}  // namespace echelon::checkpoint
