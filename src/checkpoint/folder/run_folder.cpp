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

ListedStep look_at_with_manifest(const Path& step_folder) {
  const auto name = parse_step_folder(step_folder.filename().string());
  ListedStep step{.found = {.folder = step_folder, .step = name ? name->step : 0}};
  if (!entry_exists(step_folder / kCommitFile)) return step;
  std::error_code unknown;
  step.found.committed_at = std::filesystem::last_write_time(step_folder / kCommitFile, unknown);
  try {
    step.manifest = load_manifest(step_folder);
    step.found.step = step.manifest->step;
    step.found.committed = true;
  } catch (const Error& e) {
    step.found.problem = e.what();
  }
  return step;
}

}  // namespace

Found look_at(const Path& step_folder) {
  return look_at_with_manifest(step_folder).found;
}

std::vector<ListedStep> list_with_manifests(const Path& checkpoints) {
  std::vector<ListedStep> all;
  for (const Path& path : entries_of(checkpoints)) {
    if (parse_step_folder(path.filename().string()) && is_real_folder(path))
      all.push_back(look_at_with_manifest(path));
  }
  // A run that fell back from a damaged commit has made another one of the same step since.
  std::ranges::sort(all, {}, [](const ListedStep& a) {
    return std::tuple(a.found.step, a.found.committed_at, a.found.folder.filename());
  });
  return all;
}

std::vector<Found> list(const Path& checkpoints) {
  std::vector<Found> all;
  for (ListedStep& step : list_with_manifests(checkpoints)) all.push_back(std::move(step.found));
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
