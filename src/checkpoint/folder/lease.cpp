#include "checkpoint/folder/lease.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/files/disk.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/number.h"
#include "base/process/process.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

constexpr std::string_view kPrefixes[] = {".lease-", ".save-"};  // by LeaseKind
constexpr std::chrono::minutes kTouchEvery{5};
constexpr std::int64_t kStaleAfter_s = 3600;
constexpr std::uint64_t kMaxLeaseBytes = 256;

/// This host's name, with characters that are safe in file names.
std::string this_host() {
  std::string name = host_name();
  std::ranges::replace_if(name, std::not_fn(belongs_in_name), '_');
  return name.empty() ? "unknown" : name;
}

constexpr std::string_view kStart = " start ";

/// Identifies process `pid` even if its number is reused, here, on another machine or in another container:
/// boot id, PID namespace and start time. Empty if unknown.
std::string process_mark(pid_t pid) {
  const auto info = process_info(pid);
  const std::string space = process_space();
  if (!info || space.empty()) return "";
  return str("process ", space, kStart, info->start, '\n');
}

std::string_view prefix_of(LeaseKind kind) {
  return kPrefixes[static_cast<std::size_t>(kind)];
}

/// The parts of a lease's name.
struct LeaseName {
  LeaseKind kind = LeaseKind::kReader;
  std::string step_folder;
  std::string host;
  pid_t pid = 0;
};
std::optional<LeaseName> parse_name(std::string_view name) {
  LeaseName found;
  if (name.starts_with(prefix_of(LeaseKind::kWriter))) found.kind = LeaseKind::kWriter;
  if (!name.starts_with(prefix_of(found.kind))) return std::nullopt;
  name.remove_prefix(prefix_of(found.kind).size());
  const auto id = name.rfind('-');
  if (id == std::string_view::npos || !is_save_id(name.substr(id + 1))) return std::nullopt;
  const auto pid = name.rfind('-', id - 1);
  if (pid == std::string_view::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + pid + 1, name.data() + id, found.pid);
  if (error != std::errc{} || end != name.data() + id || found.pid <= 0) return std::nullopt;
  // "step-000001200.a1b2c3d4-host": the first '-' after the dot ends the folder's name.
  const auto dot = name.find('.');
  const auto host = dot == std::string_view::npos ? dot : name.find('-', dot);
  if (host == std::string_view::npos || host >= pid) return std::nullopt;
  found.step_folder = name.substr(0, host);
  found.host = name.substr(host + 1, pid - host - 1);
  if (!parse_step_folder(found.step_folder)) return std::nullopt;
  return found;
}

/// Whether the holder lives; nothing if that cannot be asked here, because it is of another host, boot or PID
/// namespace.
std::optional<bool> lives_here(const Path& file, const LeaseName& name) {
  if (name.host != this_host()) return std::nullopt;
  std::string mark;
  try {
    mark = read_input(file, kMaxLeaseBytes);
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::string mine = process_mark(::getpid());
  const auto space = mine.substr(0, mine.find(kStart));
  if (mine.empty() || !mark.starts_with(str(space, kStart))) return std::nullopt;
  return process_mark(name.pid) == mark;
}

bool is_stale(const Path& file, const LeaseName& name) {
  struct stat info {};
  if (fs::disk().lstat(file.c_str(), &info) != 0) return errno == ENOENT;
  if (!S_ISREG(info.st_mode)) return true;
  // A process that can be looked up says more than a time: one that was stopped for hours still reads.
  if (const auto lives = lives_here(file, name)) return !*lives;
  return std::time(nullptr) - info.st_mtime > kStaleAfter_s;
}

}  // namespace

FolderLease::FolderLease(const Path& step_folder, LeaseKind kind) {
  const Path folder = real_path(step_folder);  // a prune looks there
  const std::string name = folder.filename().string();
  if (!parse_step_folder(name)) {
    note_ = str("'", folder.string(), "' is not named like a step folder, so it is read without a lease");
    return;
  }
  const std::string mark = process_mark(::getpid());
  // Not with str(): out of memory, a stream truncates silently, and a lease with a truncated name protects
  // nothing.
  file_ = folder.parent_path() / (std::string(prefix_of(kind)) + name + '-' + this_host() + '-' +
                                  std::to_string(::getpid()) + '-' + new_save_id());
  try {
    fs::NewFile lease(file_, Code::kCheckpoint);
    lease.append(mark);
    lease.close();
    lease.keep();
  } catch (const Error& error) {
    // A note, not an exception: reading must work on a read-only file system, too.
    note_ = str("cannot write a lease in '", folder.parent_path().string(), "' (", error.what(),
                "): a concurrent prune would not know that this checkpoint is in use");
    return;
  }
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { keep_fresh(stop); });
  } catch (...) {
    fs::disk().unlink(file_.c_str());
    throw;
  }
}

void warn_without(const FolderLease& lease) {
  if (!lease.note().empty()) log::warn(lease.note());
}

FolderLease::~FolderLease() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  fs::disk().unlink(file_.c_str());
}

void FolderLease::keep_fresh(const std::stop_token& stop) {
  Mutex mutex;
  Lock lock(mutex);
  while (true) {
    (void)pause_.wait_for(lock, stop, kTouchEvery, [] { return false; });
    if (stop.stop_requested()) return;
    // Twelve times within the hour after which others count the lease as stale.
    ::utimensat(AT_FDCWD, file_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  }
}

std::vector<Lease> leases_in(const Path& checkpoints) {
  std::vector<Lease> leases;
  for (const Path& path : entries_of(checkpoints)) {
    const auto name = parse_name(path.filename().string());
    if (!name) continue;
    leases.push_back({path, name->kind, name->step_folder, str("process ", name->pid, " on ", name->host),
                      is_stale(path, *name)});
  }
  return leases;
}

}  // namespace echelon::checkpoint
