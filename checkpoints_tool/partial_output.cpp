#include "partial_output.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/fs.h"
#include "base/str.h"
#include "checkpoint/files.h"
#include "checkpoint/writer.h"

namespace echelon::tool {
namespace {

using Path = std::filesystem::path;

bool is_inside(const Path& path, const Path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

PartialOutput::PartialOutput(Path path, const Path& checkpoint) : final_(std::move(path)) {
  if (final_.filename().empty()) final_ = final_.parent_path();  // "out/"
  const Path parent = final_.has_parent_path() ? final_.parent_path() : Path(".");
  std::error_code error;
  if (checkpoint::entry_exists(final_)) {
    throw Error(Code::kUsage,
                str("output '", final_.string(), "' exists already; remove it or choose another name"));
  }
  if (!std::filesystem::is_directory(parent, error)) {
    throw Error(Code::kUsage, str("output folder '", parent.string(), "' does not exist; create it first"));
  }
  if (is_inside(std::filesystem::canonical(parent), std::filesystem::canonical(checkpoint))) {
    throw Error(Code::kUsage,
                str("output '", final_.string(), "' would lie inside the checkpoint; choose another place"));
  }
  partial_ = final_.string() + ".partial-" + checkpoint::new_save_id();
}

PartialOutput::~PartialOutput() {
  std::error_code ignored;
  if (!published_) std::filesystem::remove_all(partial_, ignored);
}

void PartialOutput::publish() {
  int error =
      ::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, final_.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  // Some network file systems cannot promise not to replace; a look and a plain rename must do there.
  if ((error == EINVAL || error == ENOSYS) && !checkpoint::entry_exists(final_)) {
    error = ::rename(partial_.c_str(), final_.c_str()) == 0 ? 0 : errno;
  }
  if (error != 0) {
    throw Error(Code::kUsage, str("cannot rename '", partial_.string(), "' to '", final_.string(),
                                  "': ", fs::reason(error)));
  }
  published_ = true;
  fs::fsync_directory(final_.has_parent_path() ? final_.parent_path() : Path("."), Code::kCheckpoint);
}

}  // namespace echelon::tool
