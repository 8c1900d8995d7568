#include "checkpoint/memory/memory_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <fstream>

#include "base/checksum/crc64.h"
#include "base/error.h"
#include "base/files/disk.h"
#include "base/files/kill_point.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/files/pinned.h"
#include "base/log.h"
#include "base/number.h"
#include "base/process/group_memory.h"
#include "base/process/process.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/json.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

constexpr std::uint64_t kMaxFileBytes = 64U << 10;
constexpr std::string_view kLockFile = ".lock";
constexpr std::string_view kRunFile = "RUN";
constexpr std::string_view kTrashPrefix = ".trash-";
constexpr std::size_t kMaxRunName = 40;
constexpr std::chrono::seconds kPatience{10};  // with the lock's holder
constexpr const char* kRemedy = "; remove it, or set checkpoint.memory_dir to another folder";

std::string user_folder_name() {
  return str("echelon-", ::geteuid());
}

std::string plain(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c == '.' || !belongs_in_name(c); }, '_');
  return name.substr(0, kMaxRunName);
}

/// Two runs of one name in different places do not meet.
Path folder_of(const Path& run, const Path& memory_dir) {
  std::error_code error;
  Path full = std::filesystem::weakly_canonical(std::filesystem::absolute(run), error);
  if (error) full = std::filesystem::absolute(run).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  const std::string text = full.string();
  return memory_dir / user_folder_name() /
         str(plain(full.filename().string()), '-', fingerprint_text(crc64(std::as_bytes(std::span(text)))));
}

/// Throws unless `info` is of a folder that only this user can change or enter.
void require_private(const Path& folder, const struct stat& info) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::kUsage, "'", folder.string(), "' ", why,
                ": memory checkpoints need a folder of their own", kRemedy);
  };
  if (S_ISLNK(info.st_mode)) refuse("is a symbolic link");
  if (!S_ISDIR(info.st_mode)) refuse("is not a folder");
  if (info.st_uid != ::geteuid()) refuse(str("belongs to user ", info.st_uid, ", not to user ", ::geteuid()));
  if ((info.st_mode & 077U) != 0) refuse("can be entered by other users (expected mode 0700)");
}

void require_private(const Path& folder) {
  struct stat info {};
  if (fs::disk().lstat(folder.c_str(), &info) != 0)
    throw fs::system_error(Code::kEnvironment, "stat", folder, errno);
  require_private(folder, info);
}

void make_private(const Path& folder) {
  if (fs::disk().mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw Error(Code::kEnvironment, "cannot create folder '", folder.string(), "': ", fs::reason(errno),
                "; set checkpoint.memory_dir to a folder that can be written");
  }
  require_private(folder);
}

/// The user's folder, below which only this user can make anything. What was opened is what was checked.
fs::Fd open_private(const Path& user) {
  require_private(user);
  fs::Fd handle = fs::open(user, O_PATH | O_DIRECTORY | O_NOFOLLOW, Code::kEnvironment);
  struct stat info {};
  if (fs::disk().fstat(handle.get(), &info) != 0)
    throw fs::system_error(Code::kEnvironment, "stat", user, errno);
  require_private(user, info);
  return handle;
}

/// Is the folder that is held still the one at its path?
bool is_held(const Path& user) {
  struct stat held {};
  struct stat now {};
  return fs::disk().lstat((user / ".").c_str(), &held) == 0 && fs::disk().lstat(user.c_str(), &now) == 0 &&
         held.st_dev == now.st_dev && held.st_ino == now.st_ino;
}

/// Renamed first: from then on nobody takes what is half removed for a memory checkpoint.
void drop(Path path) noexcept {
  try {
    const std::string name = path.filename().string();
    if (!name.starts_with(kTrashPrefix)) {
      const Path trash = path.parent_path() / (std::string(kTrashPrefix) + name);
      fs::rename(path, trash, Code::kCheckpoint);
      kill_point("memory_dropped");
      path = trash;
    }
    remove_memory(path);
  } catch (const std::exception& e) {
    log::warn(str("memory checkpoints: ", e.what()));
  }
}

bool in_use(const Path& folder) {
  const Path lock = folder / kLockFile;
  if (!entry_exists(lock)) return false;
  return fs::is_locked(fs::open_own_to_read(lock, Code::kCheckpoint));
}

}  // namespace

// What is left is found again by the next start.
void remove_memory(const Path& path) noexcept {
  try {
    fs::remove_tree(path, Code::kCheckpoint);
  } catch (const std::exception& e) {
    log::warn(str("memory checkpoints: ", e.what()));
  }
}

MemoryIdentity identity_of(const Path& run) {
  const Path file = run / kMemoryFile;
  if (!entry_exists(file)) return {};
  const Json json = parse_json(read_input(file, kMaxFileBytes), str('\'', file.string(), '\''));
  MemoryIdentity identity{.id = text(json, "id", file.string()),
                          .folder = text(json, "folder", file.string())};
  // Whoever removes this folder believes the file, so it must name one that we would have made.
  const bool ours = identity.id.size() == 16 && identity.folder.is_absolute() &&
                    identity.folder == identity.folder.lexically_normal() &&
                    identity.folder.parent_path().filename() == user_folder_name();
  if (!ours) {
    throw Error(Code::kCheckpoint, "'", file.string(), "' names '", identity.folder.string(),
                "', which is no folder of user ", ::geteuid(), "'s memory checkpoints; remove the file");
  }
  return identity;
}

bool is_of(const MemoryIdentity& identity, const Path& run) {
  return identity.folder == folder_of(run, identity.folder.parent_path().parent_path());
}

MemoryIdentity identify_run(const Path& run, const Path& memory_dir) {
  MemoryIdentity known;
  try {
    known = identity_of(run);
  } catch (const Error& e) {
    log::warn(str(e.what(), "; memory checkpoints of earlier starts are not used"));
  }
  MemoryIdentity wanted{.id = known.id, .folder = folder_of(run, std::filesystem::absolute(memory_dir))};
  if (wanted.id.empty()) wanted.id = fs::random_hex() + fs::random_hex();
  if (!(wanted == known)) {
    const Json json = {{"id", wanted.id}, {"folder", wanted.folder.string()}};
    fs::publish_file(run / kMemoryFile, canonical_text(json), Code::kEnvironment);
  }
  return wanted;
}

MemoryFolder::MemoryFolder(MemoryIdentity identity, bool lead) : identity_(std::move(identity)), lead_(lead) {
  enter();
  if (!lead) return;
  const Path mark = path() / kRunFile;
  const std::string then = entry_exists(mark) ? read_input(mark, kMaxFileBytes) : "";
  if (then == id()) return;
  for (const Path& entry : fs::list_folder(path(), Code::kCheckpoint)) {
    if (entry.filename() == kLockFile) continue;
    if (parse_step_folder(entry.filename().string()))
      log::note(str("memory checkpoint '", entry.string(), "' is of another run of that name: removed"));
    drop(entry);
  }
  fs::replace_file(mark, id(), Code::kCheckpoint);
}

void MemoryFolder::enter() {
  const Path user = path().parent_path();
  if (!is_folder(user.parent_path())) {
    throw Error(Code::kUsage, "checkpoint.memory_dir '", user.parent_path().string(),
                "' is not a folder; expected one in memory (a tmpfs) on every node");
  }
  make_private(user);
  fs::Fd handle = open_private(user);
  {
    const fs::PinnedHere here(user, handle);
    make_private(path());
  }
  fs::pin_private(user, std::move(handle));
  if (!lead_) return;
  lock_ = fs::Fd();  // of the folder that was there before
  lock_ = fs::open_own(path() / kLockFile, O_RDWR | O_CREAT, Code::kEnvironment, 0600);
  // The processes of an earlier start may be just ending. A file system without locks counts as locked.
  if (fs::lock_own(lock_, kPatience, [] {}) == EWOULDBLOCK)
    throw Error(Code::kUsage, "'", path().string(), "' is in use by another job of this run on this node");
}

void MemoryFolder::renew() {
  if (is_held(path().parent_path()) && entry_exists(path() / (lead_ ? kRunFile : "."))) return;
  enter();
  if (!lead_) return;
  // Nothing is removed: other ranks of this node may have begun to save here.
  fs::replace_file(path() / kRunFile, id(), Code::kCheckpoint);
  log::warn(str("'", path().string(), "' vanished from ", host_name(),
                ", with the memory checkpoints in it (logind's RemoveIPC, a clean-up of old files?): it is "
                "made anew"));
}

Path MemoryFolder::step(std::int64_t step, const std::string& save_id) const {
  return path() / step_folder_name(step, save_id);
}

void MemoryFolder::keep_only(const std::vector<std::string>& names) const noexcept {
  try {
    for (const Path& entry : fs::list_folder(path(), Code::kCheckpoint)) {
      const std::string name = entry.filename().string();
      const bool stays =
          name == kLockFile || name == kRunFile || std::ranges::find(names, name) != names.end();
      if (!stays) drop(entry);
    }
  } catch (const std::exception& e) {
    log::warn(str("memory checkpoints: ", e.what()));
  }
}

void MemoryFolder::remove() const noexcept {
  remove_memory(path());
  // Succeeds when no other run of this user has anything there.
  const Path user = path().parent_path();
  if (is_held(user)) (void)fs::disk().rmdir(user.c_str());
}

bool memory_in_use(const Path& folder) {
  fs::pin_private(folder.parent_path(), open_private(folder.parent_path()));
  return in_use(folder);
}

bool memory_vanished(const Path& folder) {
  return !is_held(folder.parent_path()) || !entry_exists(folder);
}

std::vector<Path> remove_old_memory(const Path& memory_dir, std::int64_t older_than_s) noexcept {
  std::vector<Path> removed;
  try {
    const Path user = memory_dir / user_folder_name();
    if (!is_real_folder(user)) return removed;
    fs::pin_private(user, open_private(user));
    for (const Path& run : fs::list_folder(user, Code::kCheckpoint)) {
      if (!is_real_folder(run) || std::time(nullptr) - last_change(run, 1) < older_than_s || in_use(run))
        continue;
      fs::remove_tree(run, Code::kCheckpoint);
      removed.push_back(run);
    }
  } catch (const std::exception& e) {
    log::warn(str("memory checkpoints of earlier jobs were not removed: ", e.what()));
  }
  return removed;
}

std::uint64_t memory_left(const Path& folder) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (error) throw Error(Code::kEnvironment, "cannot examine '", folder.string(), "': ", error.message());
  // A tmpfs may be larger than what the machine, or the job's part of it, has left.
  std::uint64_t left = std::min<std::uint64_t>(space.available, group_memory_left().value_or(UINT64_MAX));
  std::ifstream lines("/proc/meminfo");
  for (std::string field; lines >> field;) {
    std::uint64_t kib = 0;
    if (field == "MemAvailable:" && lines >> kib) left = std::min(left, kib << 10);
  }
  return left;
}

std::uint64_t MemoryFolder::bytes() const {
  std::uint64_t sum = 0;
  for (const Path& step : fs::list_folder(path(), Code::kCheckpoint)) {
    if (!is_real_folder(step)) continue;
    for (const Path& file : fs::list_folder(step, Code::kCheckpoint)) {
      struct stat info {};
      if (fs::disk().lstat(file.c_str(), &info) == 0) sum += static_cast<std::uint64_t>(info.st_blocks) * 512;
    }
  }
  return sum;
}

}  // namespace echelon::checkpoint
