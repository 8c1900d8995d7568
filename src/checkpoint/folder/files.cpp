#include "checkpoint/folder/files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/files/disk.h"

namespace echelon::checkpoint {

InputFile open_input(const fs::Path& path) {
  struct stat info {};
  if (fs::disk().lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    throw Error(Code::kCheckpoint, "'", path.string(),
                "' is a symbolic link; a checkpoint holds regular files only");
  }
  // The check above gives a clear message, O_NOFOLLOW the guarantee: the entry may change in between.
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  InputFile file{fs::open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, Code::kCheckpoint), 0};
  if (fs::disk().fstat(file.fd.get(), &info) != 0) {
    throw fs::system_error(Code::kCheckpoint, "stat", path, errno);
  }
  if (!S_ISREG(info.st_mode)) throw Error(Code::kCheckpoint, "'", path.string(), "' is not a regular file");
  file.bytes = static_cast<std::uint64_t>(info.st_size);
  return file;
}

std::string read_input(const fs::Path& path, std::uint64_t max_bytes) {
  return fs::read_all(open_input(path).fd, max_bytes, Code::kCheckpoint, path);
}

namespace {

/// Fills `info`; false if there is no entry. A path that cannot be examined is an error and not "no entry": a
/// caller that confuses the two may skip a commit, or remove it.
bool look(const fs::Path& path, struct stat& info) {
  if (fs::disk().lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw fs::system_error(Code::kCheckpoint, "stat", path, errno);
}

}  // namespace

bool entry_exists(const fs::Path& path) {
  struct stat info {};
  return look(path, info);
}

bool is_folder(const fs::Path& path) {
  // The appended "." makes lstat follow a link to a folder.
  return is_real_folder(path / ".");
}

bool is_real_folder(const fs::Path& path) {
  struct stat info {};
  return look(path, info) && S_ISDIR(info.st_mode);
}

fs::Path real_path(const fs::Path& folder) {
  std::error_code absent;
  fs::Path real = std::filesystem::canonical(folder, absent);
  return absent ? std::filesystem::absolute(folder / "").lexically_normal().parent_path() : real;
}

std::int64_t last_change(const fs::Path& path, int levels) {
  struct stat info {};
  if (fs::disk().lstat(path.c_str(), &info) != 0) return 0;
  std::int64_t last = info.st_mtime;
  if (!S_ISDIR(info.st_mode) || levels == 0) return last;
  for (const fs::Path& entry : fs::list_folder(path, Code::kCheckpoint))
    last = std::max(last, last_change(entry, levels - 1));
  return last;
}

std::vector<fs::Path> entries_of(const fs::Path& folder) {
  return entry_exists(folder) ? fs::list_folder(folder, Code::kCheckpoint) : std::vector<fs::Path>{};
}

}  // namespace echelon::checkpoint
