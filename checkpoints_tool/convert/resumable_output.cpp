#include "checkpoints_tool/convert/resumable_output.h"

#include "base/checksum/crc32c.h"
#include "base/files/disk.h"
#include "base/files/own_file.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/json.h"
#include "checkpoints_tool/convert/partial_output.h"

namespace echelon::tool {
namespace {

constexpr std::string_view kMark = ".partial-";

}  // namespace

ResumableOutput::ResumableOutput(fs::Path path, const fs::Path& checkpoint, const std::string& identity,
                                 bool allow_foreign)
    : final_(checked_output(std::move(path), checkpoint)), allow_foreign_(allow_foreign) {
  const std::uint32_t id = crc32c(identity);
  folder_ = final_.string() + std::string(kMark) + checkpoint::checksum_text(id);
  make_folder(folder_);
  try {
    owner_.emplace(folder_);
  } catch (...) {
    (void)fs::disk().rmdir(folder_.c_str());  // a new one is empty
    throw;
  }
}

ResumableOutput::~ResumableOutput() {
  if (kept_) return;
  try {
    fs::remove_tree(folder_, Code::kCheckpoint);
  } catch (const std::exception&) {  // report the original error
  }
}

void ResumableOutput::make_folder(const fs::Path& folder) const {
  fs::make_directories(folder, Code::kCheckpoint);
  if (!checkpoint::is_real_folder(folder)) {
    throw Error(Code::kUsage, "'", folder.string(),
                "' is a symbolic link; expected a folder for the unfinished output: remove the link");
  }
  if (!allow_foreign_)
    fs::require_own_folder(folder, Code::kUsage,
                           "remove it (or add --allow-foreign-folder where --help has it)");
}

std::vector<fs::Path> ResumableOutput::strangers() const {
  std::vector<fs::Path> found;
  const std::string begin = final_.filename().string() + std::string(kMark);
  for (const fs::Path& entry : fs::list_folder(folder_of(final_), Code::kCheckpoint)) {
    const std::string name = entry.filename().string();
    if (name.starts_with(begin) && name != folder_.filename().string()) found.push_back(entry);
  }
  return found;
}

void ResumableOutput::publish() {
  publish_output(output(), final_);
}

}  // namespace echelon::tool
