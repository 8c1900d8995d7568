#include "app/engine/inherited_files.h"

#include <filesystem>

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
  for (const std::filesystem::path& from : {folder.checkpoints(), std::filesystem::path(options.init_from)}) {
    if (from.empty() || !std::filesystem::exists(from)) continue;
    try {
      return companions_of(from);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): no checkpoint yet, or a damaged one
    }
  }
  return {};
}

}  // namespace echelon::app
