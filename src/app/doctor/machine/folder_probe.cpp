#include "app/doctor/machine/folder_probe.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <ios>
#include <span>
#include <system_error>

#include "base/error.h"
#include "base/files/new_file.h"
#include "base/steady_time.h"
#include "base/str.h"

namespace echelon::app::doctor {
namespace {

using Path = std::filesystem::path;
constexpr std::uint64_t kSmall = 4096;                         // bytes of a small file
constexpr std::uint64_t kMeasurable = std::uint64_t{1} << 20;  // fewer bytes give no meaningful rate
constexpr double kSlowSyncS = 5;

struct Kind {
  long magic;
  const char* name;
};
// From linux/magic.h; those of Lustre, BeeGFS, GPFS and ZFS are defined in their own sources only.
constexpr std::array<Kind, 14> kKinds{{{0xEF53, "ext4"},
                                       {0x58465342, "xfs"},
                                       {0x9123683E, "btrfs"},
                                       {0x01021994, "tmpfs"},
                                       {0x858458F6, "ramfs"},
                                       {0x794C7630, "overlay"},
                                       {0x6969, "nfs"},
                                       {0x0BD00BD0, "lustre"},
                                       {0x19830326, "beegfs"},
                                       {0x47504653, "gpfs"},
                                       {0x00C36400, "ceph"},
                                       {0xFF534D42, "cifs"},
                                       {0x2FC12FC1, "zfs"},
                                       {0x65735546, "fuse"}}};

std::string kind_of(long magic) {
  for (const Kind& kind : kKinds)
    if ((magic & 0xFFFFFFFFL) == kind.magic) return kind.name;
  return str("type 0x", std::hex, magic & 0xFFFFFFFFL);
}

/// Runs `body`. Returns the text of its Error, or "".
template <class Body>
std::string trouble(Body&& body) {
  try {
    body();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Tries a lock of each kind on `file`.
void try_locks(const Path& file) {
  const fs::Fd fd = fs::open(file, O_RDWR | O_CREAT, Code::kEnvironment);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    throw Error(Code::kEnvironment, "flock: ", fs::reason(errno));
  (void)::flock(fd.get(), LOCK_UN);
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  if (::fcntl(fd.get(), F_SETLK, &range) != 0)
    throw Error(Code::kEnvironment, "fcntl lock: ", fs::reason(errno));
}

/// An open descriptor must keep reading the old file, and a later open must give the new one: readers of a
/// commit depend on both.
void try_rename(const Path& folder) {
  const Path file = folder / "commit";
  fs::publish_file(file, "old", Code::kEnvironment);
  const fs::Fd reader = fs::open(file, O_RDONLY, Code::kEnvironment);
  fs::publish_file(file, "new", Code::kEnvironment);
  std::array<std::byte, 3> seen{};
  fs::read_at(reader, 0, seen, Code::kEnvironment, file);
  const std::string old(reinterpret_cast<const char*>(seen.data()), seen.size());
  const std::string now = fs::read_file(file, 16, Code::kEnvironment);
  if (old != "old" || now != "new") {
    throw Error(Code::kEnvironment, "after a rename over a file that is open, its reader sees '",
                printable(old), "' and a new one '", printable(now), "', expected 'old' and 'new'");
  }
}

/// Only shows that a file can be written; syncing is checked separately, by try_fsync().
void write_small(const Path& file) {
  const fs::Fd fd = fs::open(file, O_WRONLY | O_CREAT, Code::kEnvironment);
  const std::vector<std::byte> bytes(kSmall);
  fs::write_at(fd, 0, bytes, Code::kEnvironment, file);
}

double try_fsync(const Path& folder) {
  const double start_s = steady_now_s();
  const Path file = folder / "sync";
  const fs::Fd fd = fs::open(file, O_WRONLY | O_CREAT, Code::kEnvironment);
  const std::array<std::byte, 1> byte{};
  fs::write_at(fd, 0, byte, Code::kEnvironment, file);
  fs::fsync(fd, Code::kEnvironment, file);
  fs::fsync_directory(folder, Code::kEnvironment);
  return steady_now_s() - start_s;
}

Finding judge_writing(const FolderFacts& facts, const std::string& where, bool shared) {
  Finding finding =
      ok("folder", str(where, " can be written, ", human_bytes(facts.available_bytes), " free"));
  finding.values = {{"path", facts.folder}, {"kind", facts.kind}, {"available_bytes", facts.available_bytes}};
  if (facts.bytes >= kMeasurable && facts.write_s > 0) {
    const double mb_per_s = std::round(static_cast<double>(facts.bytes) / facts.write_s / 1e5) / 10;
    finding.text += str(", ", mb_per_s, " MB/s written and synced");
    finding.values["mb_per_s"] = mb_per_s;
  }
  if (shared && (facts.kind == "tmpfs" || facts.kind == "ramfs")) {
    finding.verdict = Verdict::kWarning;
    finding.text += ", but is in this machine's memory: other nodes do not see it";
    finding.advice = "keep runs on the cluster's shared file system";
  }
  return finding;
}

Finding judge_locks(const FolderFacts& facts, const std::string& where) {
  if (facts.locking.empty()) return ok("folder_locks", "files in it can be locked");
  return warning("folder_locks",
                 str("files in ", where, " cannot be locked (", facts.locking,
                     "): nothing prevents two jobs from using one run folder"),
                 "mount Lustre with flock and NFS with its lock manager (no nolock)");
}

Finding judge_renames(const FolderFacts& facts, const std::string& where) {
  if (facts.renaming.empty()) return ok("folder_rename", "a rename replaces a file at once");
  return fault("folder_rename",
               str("a rename in ", where, " does not replace a file (", facts.renaming,
                   "): checkpoints cannot be committed"),
               "keep runs on a file system with POSIX renames");
}

Finding judge_syncs(const FolderFacts& facts, const std::string& where) {
  if (!facts.syncing.empty()) {
    return fault("folder_fsync",
                 str("fsync in ", where, " fails (", facts.syncing, "): a save cannot be made durable"),
                 "keep runs on a file system that supports fsync");
  }
  const double ms = std::ceil(facts.fsync_s * 1000);
  Finding finding = ok("folder_fsync", str("fsync of a small file and its folder takes ", ms, " ms"));
  finding.values = {{"fsync_ms", ms}};
  if (facts.fsync_s > kSlowSyncS) {
    finding.verdict = Verdict::kWarning;
    finding.advice = "every commit waits for it: look at the load of the file system";
  }
  return finding;
}

}  // namespace

std::filesystem::path nearest_folder(const Path& path) {
  std::error_code error;
  Path folder = std::filesystem::absolute(path, error).lexically_normal();
  while (!std::filesystem::is_directory(folder, error) && folder != folder.parent_path())
    folder = folder.parent_path();
  return folder.has_filename() ? folder : folder.parent_path();  // for "." the path ends with '/'
}

double timed_write(const Path& file, std::uint64_t bytes) {
  std::vector<std::byte> block(std::size_t{4} << 20);
  for (std::size_t i = 0; i < block.size(); ++i)  // pseudo-random: compression must not save writes
    block[i] = static_cast<std::byte>((i * 2654435761U) >> 13);
  const double start_s = steady_now_s();
  fs::NewFile made(file, Code::kEnvironment);
  for (std::uint64_t at = 0; at < bytes; at += block.size()) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), bytes - at));
    made.write(at, std::span(block).first(part));
  }
  made.finish();
  made.keep();
  return steady_now_s() - start_s;
}

FolderFacts probe_folder(const Path& folder, std::uint64_t bytes) {
  FolderFacts facts;
  const Path where = nearest_folder(folder);
  facts.folder = where.string();
  struct statfs info {};
  if (::statfs(where.c_str(), &info) == 0) {
    facts.kind = kind_of(static_cast<long>(info.f_type));
    facts.available_bytes = std::uint64_t{info.f_bavail} * static_cast<std::uint64_t>(info.f_bsize);
  }
  facts.writing = trouble([&] {
    const fs::NewFolder probe(where / kProbe, Code::kEnvironment);
    write_small(probe.path() / "small");
    facts.syncing = trouble([&] { facts.fsync_s = try_fsync(probe.path()); });
    // At most a tenth of the free space: a probe must not fill the disk.
    facts.bytes = std::min(bytes, facts.available_bytes / 10);
    if (facts.syncing.empty()) facts.write_s = timed_write(probe.path() / "data", facts.bytes);
    facts.locking = trouble([&] { try_locks(probe.path() / "lock"); });
    if (facts.syncing.empty()) facts.renaming = trouble([&] { try_rename(probe.path()); });
  });
  return facts;
}

std::vector<Finding> judge_folder(const FolderFacts& facts, bool shared) {
  const std::string where = str("'", facts.folder, "' (", facts.kind, ")");
  if (!facts.writing.empty()) {
    return {fault("folder", str("cannot write in ", where, ": ", facts.writing),
                  "name a folder that can be written, make room, or mount it for writing")};
  }
  std::vector<Finding> findings{judge_writing(facts, where, shared), judge_locks(facts, where),
                                judge_syncs(facts, where)};
  // Publishing a file syncs it too.
  if (facts.syncing.empty()) findings.push_back(judge_renames(facts, where));
  return findings;
}

}  // namespace echelon::app::doctor
