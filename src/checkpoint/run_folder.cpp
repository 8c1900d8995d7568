// list() and prune(): the folder that holds all checkpoints of a run.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/contents.h"
#include "checkpoint/files.h"
#include "checkpoint/names.h"
#include "checkpoint/reader.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

constexpr std::string_view kTrashPrefix = ".trash-";

/// A folder that does not exist yet has no entries.
std::vector<Path> entries_of(const Path& folder) {
  return entry_exists(folder) ? fs::list_folder(folder, Code::kCheckpoint) : std::vector<Path>{};
}

/// Are all files that the manifest lists there, with their sizes? A commit that lost one must not displace an
/// older whole one.
bool files_are_there(const Path& folder) {
  try {
    const Manifest manifest = load_manifest(folder);
    for (const ManifestShard& shard : manifest.shards) {
      if (open_input(folder / shard.file).bytes != shard.bytes) return false;
    }
    for (const auto& [name, file] : manifest.attachments) {
      if (open_input(folder / name).bytes != file.bytes) return false;
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

void remove_or_warn(const Path& folder) {
  try {
    fs::remove_tree(folder, Code::kCheckpoint);
  } catch (const Error& e) {
    log::warn(str(e.what(), "; the next clean-up tries again"));
  }
}

/// Rename first: from then on nobody takes the half-removed folder for a checkpoint.
void discard(const Path& checkpoints, const Path& folder) {
  const Path trash = checkpoints / (std::string(kTrashPrefix) + folder.filename().string());
  try {
    fs::rename(folder, trash, Code::kCheckpoint);
    fs::fsync_directory(checkpoints, Code::kCheckpoint);
  } catch (const Error& e) {
    log::warn(str("old checkpoint stays: ", e.what()));
    return;
  }
  remove_or_warn(trash);
}

}  // namespace

std::vector<Found> list(const Path& checkpoints) {
  std::vector<Found> all;
  for (const Path& path : entries_of(checkpoints)) {
    const auto name = parse_step_folder(path.filename().string());
    if (!name || !is_real_folder(path)) continue;
    Found found{.folder = path, .step = name->step};
    if (entry_exists(path / kCommitFile)) {
      try {
        (void)load_manifest(path);
        found.committed = true;
      } catch (const Error& e) {
        found.problem = e.what();
      }
    }
    all.push_back(std::move(found));
  }
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
    return std::pair(a.step, a.folder.filename()) < std::pair(b.step, b.folder.filename());
  });
  return all;
}

void prune(const Path& checkpoints, std::int64_t keep) {
  for (const Path& path : entries_of(checkpoints)) {
    if (path.filename().string().starts_with(kTrashPrefix) && is_real_folder(path)) remove_or_warn(path);
  }
  const std::vector<Found> all = list(checkpoints);
  std::int64_t newest = -1;  // newest whole commit
  std::int64_t oldest_kept = keep == 0 ? -1 : kMaxStep + 1;
  std::int64_t kept = 0;
  for (auto found = all.rbegin(); found != all.rend(); ++found) {
    if (!found->committed || !files_are_there(found->folder)) continue;
    newest = std::max(newest, found->step);
    if (kept++ < keep) oldest_kept = found->step;
  }
  if (newest < 0) return;  // nothing to fall back on: remove nothing
  if (kept <= keep) oldest_kept = -1;
  for (const Found& found : all) {
    const bool leftover = !found.committed && found.problem.empty() && found.step <= newest;
    if (leftover || found.step < oldest_kept) discard(checkpoints, found.folder);
  }
}

}  // namespace echelon::checkpoint
