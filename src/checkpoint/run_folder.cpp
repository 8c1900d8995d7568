// list() and the links it leaves out: the folder that holds all checkpoints of a run.
#include <algorithm>

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

/// A folder that does not exist yet has no entries.
std::vector<Path> entries_of(const Path& folder) {
  return entry_exists(folder) ? fs::list_folder(folder, Code::kCheckpoint) : std::vector<Path>{};
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

void warn_of_linked_steps(const Path& checkpoints) {
  for (const Path& path : entries_of(checkpoints)) {
    if (!parse_step_folder(path.filename().string()) || is_real_folder(path) || !is_folder(path)) continue;
    log::warn(str("'", path.string(),
                  "' is a symbolic link and passed over: links in a run's folder are not followed; move the "
                  "checkpoint itself there, or give its own path"));
  }
}

}  // namespace echelon::checkpoint
