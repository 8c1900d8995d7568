#include "base/files/own_file.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <thread>

#include "base/files/disk.h"
#include "base/process/process.h"
#include "base/str.h"

namespace echelon::fs {
namespace {

[[noreturn]] void refuse_link(const Path& path, Code code) {
  throw Error(code, "'", path.string(), "' is a symbolic link; expected a regular file: remove the link");
}

/// Reports a link as such: ELOOP's "too many levels of symbolic links" would mislead.
Fd open_unlinked(const Path& path, int flags, Code code, unsigned mode) {
  struct stat info {};
  if (disk().lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) refuse_link(path, code);
  return open(path, flags | O_NOFOLLOW | O_NONBLOCK, code, mode);
}

void require_plain(const Fd& fd, const Path& path, Code code, bool to_write) {
  struct stat info {};
  if (disk().fstat(fd.get(), &info) != 0) throw system_error(code, "stat", path, errno);
  if (!S_ISREG(info.st_mode)) throw Error(code, "'", path.string(), "' is not a regular file");
  if (to_write && info.st_nlink > 1) {
    throw Error(
        code, "'", path.string(), "' has ", info.st_nlink,
        " hard links, and writing to it would change the file under its other names: remove this name");
  }
}

/// What lstat says of the folder `path`, which is this process's own.
struct stat own_folder(const Path& path, Code code, std::string_view remedy) {
  const Path named = path.has_filename() ? path : path.parent_path();  // lstat of "out/" would follow a link
  const uid_t me = ::geteuid();
  const auto look = [&](const Path& what) {
    struct stat info {};
    if (disk().lstat(what.c_str(), &info) != 0) throw system_error(code, "stat", path, errno);
    return info;
  };
  const auto refuse = [&](const char* what, uid_t owner) {
    throw Error(code, what, " '", named.string(), "' belongs to user ", owner, ", who can change what user ",
                me, " (this process) writes there; name a folder of your own, or ", remedy);
  };
  const struct stat entry = look(named);
  if (S_ISLNK(entry.st_mode) && entry.st_uid != me && entry.st_uid != 0) refuse("the link", entry.st_uid);
  const struct stat folder = look(named / ".");
  if (!S_ISDIR(folder.st_mode)) throw Error(code, "'", named.string(), "' is not a folder");
  if (folder.st_uid != me) refuse("the folder", folder.st_uid);
  return folder;
}

/// Is `group` the one that this process's user has alone? Unknown names are not.
bool is_private(gid_t group) {
  std::array<char, 16384> names{};
  std::array<char, 16384> members{};
  struct passwd user {};
  struct passwd* me = nullptr;
  struct group entry {};
  struct group* found = nullptr;
  if (::getpwuid_r(::geteuid(), &user, names.data(), names.size(), &me) != 0 || me == nullptr) return false;
  if (::getgrgid_r(group, &entry, members.data(), members.size(), &found) != 0 || found == nullptr)
    return false;
  const std::string_view name = me->pw_name;
  for (char** member = found->gr_mem; *member != nullptr; ++member)
    if (name != *member) return false;
  return name == found->gr_name;
}

}  // namespace

Fd open_own(const Path& path, int flags, Code code, unsigned mode) {
  if ((flags & O_EXCL) != 0) return open(path, flags | O_NOFOLLOW, code, mode);
  // Without O_TRUNC: the file must not be emptied before it is known to be a plain one.
  Fd fd = open_unlinked(path, flags & ~O_TRUNC, code, mode);
  require_plain(fd, path, code, true);
  if ((flags & O_TRUNC) != 0 && disk().ftruncate(fd.get(), 0) != 0)
    throw Error(code, "cannot empty '", path.string(), "': ", reason(errno));
  return fd;
}

Fd open_own_to_read(const Path& path, Code code) {
  Fd fd = open_unlinked(path, O_RDONLY, code, 0);
  require_plain(fd, path, code, false);
  return fd;
}

std::string read_own_file(const Path& path, std::uint64_t max_bytes, Code code) {
  return read_all(open_own_to_read(path, code), max_bytes, code, path);
}

int lock_own(const Fd& file, std::chrono::milliseconds patience, const std::function<void()>& waiting) {
  const auto until = std::chrono::steady_clock::now() + patience;
  for (bool told = false; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0; told = true) {
    if (errno != EWOULDBLOCK && errno != EINTR) return errno;
    if (std::chrono::steady_clock::now() >= until) return EWOULDBLOCK;
    if (!told) waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return 0;
}

bool is_locked(const Fd& file) {
  return ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void sign_lock(const Fd& file, const Path& path, Code code) {
  const std::string owner = describe_this_process();
  if (disk().ftruncate(file.get(), 0) != 0) throw system_error(code, "write", path, errno);
  write_at(file, 0, std::as_bytes(std::span(owner)), code, path);
}

std::string random_hex() {
  std::uint32_t bits = 0;
  while (::getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) {  // may be interrupted early after boot
  }
  return hex_digits(bits, kRandomDigits);
}

void require_own_folder(const Path& path, Code code, std::string_view remedy) {
  (void)own_folder(path, code, remedy);
}

void require_unshared_folder(const Path& path, Code code, std::string_view remedy) {
  const struct stat info = own_folder(path, code, remedy);
  const bool all = (info.st_mode & S_IWOTH) != 0;
  if (!all && ((info.st_mode & S_IWGRP) == 0 || is_private(info.st_gid))) return;
  throw Error(code, "the folder '", path.string(), "' can be written by ",
              all ? "all users" : str("group ", info.st_gid),
              ", who can change what this process writes there; take that from them (chmod go-w), or ",
              remedy);
}

}  // namespace echelon::fs
