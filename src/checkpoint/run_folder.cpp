// list(): the folder that holds all checkpoints of a run.
#include <algorithm>

#include "base/error.h"
#include "base/fs.h"
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

std::vector<ListedStep> list_with_manifests(const Path& checkpoints) {
  std::vector<ListedStep> all;
  for (const Path& path : entries_of(checkpoints)) {
    const auto name = parse_step_folder(path.filename().string());
    if (!name || !is_real_folder(path)) continue;
    ListedStep step{.found = {.folder = path, .step = name->step}};
    if (entry_exists(path / kCommitFile)) {
      try {
        step.manifest = load_manifest(path);
        step.found.committed = true;
      } catch (const Error& e) {
        step.found.problem = e.what();
      }
    }
    all.push_back(std::move(step));
  }
  std::sort(all.begin(), all.end(), [](const ListedStep& a, const ListedStep& b) {
    return std::pair(a.found.step, a.found.folder.filename()) <
           std::pair(b.found.step, b.found.folder.filename());
  });
  return all;
}

std::vector<Found> list(const Path& checkpoints) {
  std::vector<Found> all;
  for (ListedStep& step : list_with_manifests(checkpoints)) all.push_back(std::move(step.found));
  return all;
}

}  // namespace echelon::checkpoint
