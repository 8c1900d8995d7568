#include "checkpoint/folder/lease.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>

#include "base/error.h"
#include "base/files/disk.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"
#include "checkpoint/write/writer.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

constexpr std::string_view kPrefix = ".lease-";
constexpr std::chrono::minutes kTouchEvery{5};
constexpr std::int64_t kStaleAfter_s = 3600;
constexpr std::uint64_t kMaxLeaseBytes = 256;

/// This host's name, with characters that are safe in file names.
std::string this_host() {
  const std::string name = host_name();
  if (name.empty()) return "unknown";
  std::string plain;
  for (const char c : name) {
    const bool fits =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
    plain += fits ? c : '_';
  }
  return plain;
}

constexpr std::string_view kStart = " start ";

/// Identifies process `pid` even if its number is reused, here, on another machine or in another container:
/// boot id, PID namespace and start time. Empty if unknown. Earlier versions wrote "process space ...",
/// without the boot id.
std::string process_mark(pid_t pid) {
  const auto info = process_info(pid);
  const std::string space = process_space();
  if (!info || space.empty()) return "";
  return str("process ", space, kStart, info->start, '\n');
}

/// The parts of a lease's name.
struct LeaseName {
  std::string step_folder;
  std::string host;
  pid_t pid = 0;
};
std::optional<LeaseName> parse_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const auto id = name.rfind('-');
  if (id == std::string_view::npos || !is_save_id(name.substr(id + 1))) return std::nullopt;
  const auto pid = name.rfind('-', id - 1);
  if (pid == std::string_view::npos) return std::nullopt;
  LeaseName found;
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

bool is_stale(const Path& file, const LeaseName& name) {
  struct stat info {};
  if (fs::disk().lstat(file.c_str(), &info) != 0) return errno == ENOENT;
  if (!S_ISREG(info.st_mode) || std::time(nullptr) - info.st_mtime > kStaleAfter_s) return true;
  if (name.host != this_host()) return false;
  std::string mark;
  try {
    mark = read_input(file, kMaxLeaseBytes);
  } catch (const Error&) {
    return false;
  }
  const std::string mine = process_mark(::getpid());
  const auto space = mine.substr(0, mine.find(kStart));
  // A process of another boot or PID namespace cannot be looked up here: only the hour counts.
  if (mine.empty() || !mark.starts_with(str(space, kStart))) return false;
  return process_mark(name.pid) != mark;
}

}  // namespace

ReadLease::ReadLease(const Path& step_folder) {
  const Path folder = std::filesystem::absolute(step_folder / "").lexically_normal().parent_path();
  const std::string name = folder.filename().string();
  if (!parse_step_folder(name)) {
    note_ = str("'", folder.string(), "' is not named like a step folder, so it is read without a lease");
    return;
  }
  const std::string mark = process_mark(::getpid());
  // Not with str(): out of memory, a stream truncates silently, and a lease with a truncated name protects
  // nothing.
  file_ = folder.parent_path() / (std::string(kPrefix) + name + '-' + this_host() + '-' +
                                  std::to_string(::getpid()) + '-' + new_save_id());
  try {
    fs::NewFile lease(file_, Code::kCheckpoint);
    lease.write(0, std::as_bytes(std::span(mark)));
    lease.close();
    lease.keep();
  } catch (const Error& error) {
    // A note, not an exception: reading must work on a read-only file system, too.
    note_ = str("cannot write a lease in '", folder.parent_path().string(), "' (", error.what(),
                "): a concurrent prune would not know that this checkpoint is in use");
    return;
  }
  thread_ = std::thread([this] { keep_fresh(); });
}

void warn_without(const ReadLease& lease) {
  if (!lease.note().empty()) log::warn(lease.note());
}

ReadLease::~ReadLease() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  thread_.join();
  fs::disk().unlink(file_.c_str());
}

void ReadLease::keep_fresh() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, kTouchEvery, [this] { return stopped_; })) {
    // Twelve times within the hour after which others count the lease as stale.
    ::utimensat(AT_FDCWD, file_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  }
}

std::vector<Lease> leases_in(const Path& checkpoints) {
  std::vector<Lease> leases;
  if (!entry_exists(checkpoints)) return leases;
  for (const Path& path : fs::list_folder(checkpoints, Code::kCheckpoint)) {
    const auto name = parse_name(path.filename().string());
    if (!name) continue;
    leases.push_back(
        {path, name->step_folder, str("process ", name->pid, " on ", name->host), is_stale(path, *name)});
  }
  return leases;
}

}  // namespace echelon::checkpoint
