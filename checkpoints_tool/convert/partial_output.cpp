#include "checkpoints_tool/convert/partial_output.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/files/disk.h"
#include "base/files/fs.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"

namespace echelon::tool {

using Path = std::filesystem::path;

namespace {

bool is_inside(const Path& path, const Path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

Path folder_of(const Path& path) {
  return path.has_parent_path() ? path.parent_path() : Path(".");
}

Path checked_output(Path path, const Path& checkpoint) {
  if (path.filename().empty()) path = path.parent_path();  // "out/"
  const Path parent = folder_of(path);
  if (checkpoint::entry_exists(path)) {
    throw Error(Code::kUsage, "output '", path.string(),
                "' exists already; remove it or choose another name");
  }
  if (is_inside(std::filesystem::weakly_canonical(std::filesystem::absolute(parent)),
                std::filesystem::canonical(checkpoint))) {
    throw Error(Code::kUsage, "output '", path.string(),
                "' would lie inside the checkpoint; choose another place");
  }
  in_context(str("output '", path.string(), "'"), [&] { fs::make_directories(parent, Code::kUsage); });
  return path;
}

void publish_output(const Path& made, const Path& output) {
  int error = fs::disk().rename_new(made.c_str(), output.c_str()) == 0 ? 0 : errno;
  // Some network file systems cannot rename without replacing; there a check and a plain rename must do.
  if ((error == EINVAL || error == ENOSYS) && !checkpoint::entry_exists(output)) {
    error = fs::disk().rename(made.c_str(), output.c_str()) == 0 ? 0 : errno;
  }
  if (error != 0) {
    throw Error(Code::kUsage, "cannot rename '", made.string(), "' to '", output.string(),
                "': ", fs::reason(error));
  }
  fs::fsync_directory(folder_of(output), Code::kCheckpoint);
}

Path partial_name(const Path& output) {
  return output.string() + ".partial-" + checkpoint::new_save_id();
}

}  // namespace echelon::tool
