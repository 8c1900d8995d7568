#include "app/engine/inherited_files.h"

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "checkpoint/names.h"
#include "checkpoint/reader.h"

namespace echelon::app {
namespace {

std::map<std::string, std::string> companions_of(const std::filesystem::path& checkpoint) {
  std::map<std::string, std::string> files;
  const checkpoint::Reader reader(checkpoint);
  for (const std::string& name : reader.attachments()) {
    if (checkpoint::is_companion_file(name)) files[name] = reader.attachment(name);
  }
  return files;
}

}  // namespace

std::map<std::string, std::string> inherited_files(const CheckpointOptions& options,
                                                   const RunFolder& folder) {
  // Step by step: a run folder's reader would tell of damage, and restoring does that.
  std::vector<std::filesystem::path> sources;
  for (const checkpoint::Found& found : checkpoint::list(folder.checkpoints())) {
    if (found.committed) sources.insert(sources.begin(), found.folder);
  }
  if (!options.init_from.empty()) sources.emplace_back(options.init_from);
  for (const std::filesystem::path& from : sources) {
    try {
      return companions_of(from);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): no checkpoint yet, or a damaged one
    }
  }
  return {};
}

}  // namespace echelon::app
