// list() and look_at(): the folder that holds all checkpoints of a run.
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

Found look_at(const Path& step_folder) {
  const auto name = parse_step_folder(step_folder.filename().string());
  Found found{.folder = step_folder, .step = name ? name->step : 0};
  if (!entry_exists(step_folder / kCommitFile)) return found;
  try {
    found.step = load_manifest(step_folder).step;
    found.committed = true;
  } catch (const Error& e) {
    found.problem = e.what();
  }
  return found;
}

std::vector<Found> list(const Path& checkpoints) {
  std::vector<Found> all;
  for (const Path& path : entries_of(checkpoints)) {
    if (parse_step_folder(path.filename().string()) && is_real_folder(path)) all.push_back(look_at(path));
  }
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
    return std::pair(a.step, a.folder.filename()) < std::pair(b.step, b.folder.filename());
  });
  return all;
}

}  // namespace echelon::checkpoint
