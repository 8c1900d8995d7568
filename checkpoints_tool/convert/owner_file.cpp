#include "checkpoints_tool/convert/owner_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <sstream>

#include "base/files/disk.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/process/process.h"
#include "base/str.h"

namespace echelon::tool {
namespace {

constexpr const char* kOwnerName = "owner";

struct Owner {
  std::string host;
  pid_t pid = 0;
  std::uint64_t start = 0;  ///< see ProcessInfo
  std::string space;        ///< process_space(); empty: unknown
};

/// 0 when there is no such process.
std::uint64_t start_of(pid_t pid) {
  const auto info = process_info(pid);
  return info ? info->start : 0;
}

Owner this_process() {
  const std::string host = host_name();
  return {host.empty() ? "?" : host, ::getpid(), start_of(::getpid()), process_space()};
}

std::string text_of(const Owner& owner) {
  return str(owner.host, ' ', owner.pid, ' ', owner.start, ' ', owner.space, '\n');
}

Owner read_owner(const fs::Path& path) {
  std::istringstream text(fs::read_own_file(path, 4096, Code::kCheckpoint));
  Owner owner;
  text >> owner.host >> owner.pid >> owner.start >> std::ws;
  std::getline(text, owner.space);
  return owner;
}

std::string in_words(const Owner& owner) {
  return str("process ", owner.pid, " on ", owner.host);
}

/// Whether this process can look the owner up.
bool is_seen(const Owner& owner, const Owner& mine) {
  return owner.host == mine.host && !mine.space.empty() && owner.space == mine.space;
}

/// A process id alone proves nothing, since ids are reused; with the start time it names one process.
bool may_live(const Owner& owner, const Owner& mine) {
  return !is_seen(owner, mine) || (owner.start != 0 && start_of(owner.pid) == owner.start);
}

/// Replaces the file of an owner that has ended by `draft`. `error`: why link(2) failed.
void take_over(const fs::Path& path, fs::NewFile& draft, const Owner& mine, int error) {
  if (error != EEXIST) {
    throw Error(Code::kCheckpoint, "cannot create '", path.string(), "': ", fs::reason(error));
  }
  const Owner other = read_owner(path);
  if (!may_live(other, mine)) return draft.rename(path);
  throw Error(Code::kUsage, in_words(other), " is already working in '", path.parent_path().string(),
              "'; wait for it or stop it",
              is_seen(other, mine) ? "" : str(" (if it no longer runs there, remove '", path.string(), "')"));
}

}  // namespace

OwnerFile::OwnerFile(const fs::Path& folder) : path_(folder / kOwnerName) {
  // Only processes of this machine take over each other's files. Among them a lock makes checking and
  // removing the old file atomic. Without locks on the file system a small race remains.
  const fs::Fd guard = fs::open(folder, O_RDONLY | O_DIRECTORY, Code::kCheckpoint);
  (void)::flock(guard.get(), LOCK_EX);
  const Owner mine = this_process();
  const std::string text = text_of(mine);
  fs::NewFile draft(fs::draft_name(path_), Code::kCheckpoint);
  draft.write(0, std::as_bytes(std::span(text)));
  draft.finish();
  // Written first and linked afterwards, so that nobody reads an owner file without its text. Unlike
  // rename, link(2) fails when the name is taken.
  if (fs::disk().link(draft.path().c_str(), path_.c_str()) != 0) take_over(path_, draft, mine, errno);
}

std::string worker_in(const fs::Path& folder) {
  try {
    const Owner owner = read_owner(folder / kOwnerName);
    return may_live(owner, this_process()) ? in_words(owner) : "";
  } catch (const Error&) {
    return "";
  }
}

OwnerFile::~OwnerFile() {
  (void)fs::disk().unlink(path_.c_str());
}

}  // namespace echelon::tool
