#include "checkpoints_tool/convert/resumable_output.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>

#include "base/checksum/crc32c.h"
#include "base/files/disk.h"
#include "base/files/own_file.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/json.h"
#include "checkpoints_tool/convert/partial_output.h"

namespace echelon::tool {
namespace {

constexpr std::string_view kMark = ".partial-";
constexpr const char* kOwner = "owner";
constexpr std::uint64_t kMaxOwnerBytes = 4096;

/// Locks the file `owner` of a folder, as long as the result lives.
fs::Fd lock_folder(const fs::Path& folder) {
  const fs::Path file = folder / kOwner;
  fs::Fd lock = fs::open_own(file, O_RDWR | O_CREAT, Code::kCheckpoint);
  const int error = fs::lock_own(lock, std::chrono::milliseconds(0), [] {});
  struct stat info {};
  // Without a name, the file was removed by a process that ended just now.
  if (error == EWOULDBLOCK || (fs::disk().fstat(lock.get(), &info) == 0 && info.st_nlink == 0)) {
    throw Error(Code::kUsage, fs::read_all(lock, kMaxOwnerBytes, Code::kCheckpoint, file),
                " is already working in '", folder.string(), "'; wait for it or stop it");
  }
  if (error != 0)
    log::warn(str("'", file.string(), "' cannot be locked (", fs::reason(error),
                  "): nothing prevents a second process from working there"));
  return lock;
}

}  // namespace

std::string worker_in(const fs::Path& folder) {
  try {
    const fs::Fd lock = fs::open_own_to_read(folder / kOwner, Code::kCheckpoint);
    return fs::is_locked(lock) ? fs::read_all(lock, kMaxOwnerBytes, Code::kCheckpoint, folder / kOwner) : "";
  } catch (const Error&) {
    return "";
  }
}

ResumableOutput::ResumableOutput(fs::Path path, const fs::Path& checkpoint, const std::string& identity,
                                 bool allow_foreign)
    : final_(checked_output(std::move(path), checkpoint)), allow_foreign_(allow_foreign) {
  const std::uint32_t id = crc32c(identity);
  folder_ = final_.string() + std::string(kMark) + checkpoint::checksum_text(id);
  make_folder(folder_);
  try {
    lock_ = lock_folder(folder_);
    fs::sign_lock(lock_, folder_ / kOwner, Code::kCheckpoint);
  } catch (...) {
    if (lock_.valid()) (void)fs::disk().unlink((folder_ / kOwner).c_str());
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
