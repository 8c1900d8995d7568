#include "checkpoint/write/commit.h"

#include <algorithm>

#include "base/caught.h"
#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"
#include "checkpoint/hdf5/h5_layout.h"

namespace echelon::checkpoint {
namespace {

/// Reads back every shard's index: the manifest describes what is in the files, not what the ranks meant to
/// write.
std::vector<ShardIndex> read_back(const std::filesystem::path& folder, const CommitInfo& info,
                                  Manifest& manifest) {
  for (int rank = 0; rank < info.ranks; ++rank) {
    const std::string name = shard_file_name(rank, info.ranks);
    if (!entry_exists(folder / name)) {
      throw Error(Code::kCheckpoint, "rank ", rank, "'s '", name,
                  "' is not visible to the committing rank: was it written, ",
                  "and is the run folder on a file system that all nodes share?");
    }
    manifest.shards.push_back(describe_shard(folder, name));
  }
  std::vector<ShardIndex> indexes;
  for (std::size_t rank = 0; rank < manifest.shards.size(); ++rank)
    indexes.push_back(load_shard_index(folder, manifest, rank));
  return indexes;
}

/// False also if the system returns an error.
bool is_there(const std::filesystem::path& file) noexcept {
  try {
    return entry_exists(file);
  } catch (...) {
    return false;
  }
}

/// Creates COMMIT. If something fails after the rename, or a rename reports failure but took effect (as on
/// NFS, where a reply can be lost), the commit stands: only the file's existence counts. Returns the reason
/// why a loss of power may undo it, or "".
std::string publish_commit(const std::filesystem::path& file, const std::string& text) {
  try {
    fs::publish_file(file, text, Code::kCheckpoint);
    return "";
  } catch (...) {
    if (!is_there(file)) throw;
    return caught();
  }
}

std::string publish(const std::filesystem::path& folder, const CommitInfo& info, Manifest& manifest) {
  for (const auto& [name, content] : info.attachments) {
    fs::publish_file(folder / name, content, Code::kCheckpoint);
    manifest.attachments[name] = {content.size(), crc32c(content)};
  }
  const std::string text = manifest_text(manifest);
  if (text.size() > kMaxManifestBytes) {
    throw Error(Code::kCheckpoint, "MANIFEST.json would have ", text.size(), " bytes, at most ",
                kMaxManifestBytes, " can be read back: shorten the trainer state");
  }
  (void)parse_manifest(text, "MANIFEST.json");  // never commit a manifest that a reader would refuse
  fs::publish_file(folder / kManifestFile, text, Code::kCheckpoint);
  // The step folder's name is an entry of its parent: without this flush a loss of power could lose the
  // folder with a durable COMMIT in it.
  const auto parent = std::filesystem::absolute(folder).lexically_normal().parent_path();
  fs::fsync_directory(parent, Code::kCheckpoint);
  const Commit commit{.step = info.step,
                      .save_id = info.save_id,
                      .manifest_bytes = text.size(),
                      .manifest_crc = crc32c(text)};
  if (info.before_commit) info.before_commit();
  return publish_commit(folder / kCommitFile, commit_text(commit));
}

void check_attachments(const std::map<std::string, std::string>& attachments) {
  for (const auto& [name, content] : attachments) {
    if (const std::string problem = attachment_name_problem(name); !problem.empty()) {
      throw Error(Code::kCheckpoint, "attachment name '", name, "' ", problem);
    }
    if (content.size() > kMaxAttachmentBytes) {
      throw Error(Code::kCheckpoint, "attachment '", name, "' is larger than ",
                  human_bytes(kMaxAttachmentBytes));
    }
  }
}

}  // namespace

std::string commit(const std::filesystem::path& folder, const CommitInfo& info) {
  return in_context(str("cannot commit checkpoint '", folder.string(), "'"), [&] {
    const std::string expected = step_folder_name(info.step, info.save_id);
    if (folder.filename() != expected) {
      throw Error(Code::kCheckpoint, "step ", info.step, ", save ", info.save_id, " belongs in a folder '",
                  expected, "'");
    }
    check_attachments(info.attachments);
    check_tensors(info.tensors);
    Manifest manifest{.step = info.step,
                      .save_id = info.save_id,
                      .resumed_from = info.resumed_from,
                      .tensors = info.tensors,
                      .trainer_state = info.trainer_state,
                      .versions = {{"hdf5", h5_version()}}};
    std::ranges::sort(manifest.tensors, {}, &TensorInfo::name);
    const std::vector<ShardIndex> indexes = read_back(folder, info, manifest);
    manifest.digests = digests_of(manifest.tensors, indexes);
    return publish(folder, info, manifest);
  });
}

void discard_attempt(const std::filesystem::path& folder) noexcept {
  try {
    // Throws if the system returns an error: a folder that may be committed is kept.
    if (entry_exists(folder / kCommitFile)) return;
    fs::remove_tree(folder, Code::kCheckpoint);
  } catch (...) {
  }
}

}  // namespace echelon::checkpoint
