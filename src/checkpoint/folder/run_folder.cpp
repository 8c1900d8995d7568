#include "checkpoint/folder/run_folder.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

}  // namespace

Found look_at(const Path& step_folder) {
  const auto name = parse_step_folder(step_folder.filename().string());
  Found found{.folder = step_folder, .step = name ? name->step : 0};
  if (!entry_exists(step_folder / kCommitFile)) return found;
  std::error_code unknown;
  found.committed_at = std::filesystem::last_write_time(step_folder / kCommitFile, unknown);
  try {
    found.manifest = load_manifest(step_folder);
    found.step = found.manifest->step;
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
  // A run that fell back from a damaged commit has made another one of the same step since.
  std::ranges::sort(all, {},
                    [](const Found& a) { return std::tuple(a.step, a.committed_at, a.folder.filename()); });
  return all;
}

void warn_of_linked_steps(const Path& checkpoints) {
  for (const Path& path : entries_of(checkpoints)) {
    if (!parse_step_folder(path.filename().string()) || is_real_folder(path) || !is_folder(path)) continue;
    log::warn(str("'", path.string(),
                  "' is a symbolic link and is skipped: links in a run's folder are not followed; move the "
                  "checkpoint itself there, or name its real path"));
  }
}

}  // namespace echelon::checkpoint
