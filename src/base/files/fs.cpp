#include "base/files/fs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/files/disk.h"
#include "base/files/pinned.h"
#include "base/str.h"

namespace echelon::fs {
namespace {

[[noreturn]] void fail(Code code, std::string_view doing, const Path& path, int error) {
  throw system_error(code, doing, path, error);
}

}  // namespace

Error system_error(Code code, std::string_view doing, const Path& path, int errno_value) {
  const std::string text = str("cannot ", doing, " '", path.string(), "': ", reason(errno_value));
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENXIO:
    case ENAMETOOLONG: return {code, text};
    default: return Error::of_system(code, text);
  }
}

std::string reason(int errno_value) {
  return std::generic_category().message(errno_value);
}

Fd& Fd::operator=(Fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) disk().close(fd_);
}

void Fd::close(Code code, const Path& path) {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && disk().close(fd) != 0) fail(code, "close", path, errno);
}

Fd open(const Path& path, int flags, Code code, unsigned mode) {
  int fd = -1;
  do {
    fd = disk().open(path.c_str(), flags, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) fail(code, (flags & (O_WRONLY | O_RDWR)) != 0 ? "open for writing" : "open", path, errno);
  return Fd(fd);
}

void write_at(const Fd& fd, std::uint64_t offset, std::span<const std::byte> bytes, Code code,
              const Path& path) {
  while (!bytes.empty()) {
    const ssize_t n = disk().pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(code, "write", path, n < 0 ? errno : EIO);  // retrying on 0 could loop forever
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void read_at(const Fd& fd, std::uint64_t offset, std::span<std::byte> bytes, Code code, const Path& path) {
  while (!bytes.empty()) {
    const ssize_t n = disk().pread(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(code, "read", path, errno);
    if (n == 0) {
      throw Error(code, "cannot read '", path.string(), "': file ends at byte ", offset, ", ", bytes.size(),
                  " bytes early; it was cut short");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void fsync(const Fd& fd, Code code, const Path& path) {
  // Never retried: after a failed fsync the kernel may have dropped the dirty pages, so a second call can
  // succeed without the data being on disk.
  if (disk().fsync(fd.get()) != 0) fail(code, "flush to disk", path, errno);
}

void fsync_directory(const Path& directory, Code code) {
  const Fd fd = open(directory, O_RDONLY | O_DIRECTORY, code);
  // EINVAL: a file system that cannot flush folders.
  if (disk().fsync(fd.get()) != 0 && errno != EINVAL) fail(code, "flush folder", directory, errno);
}

std::string read_file(const Path& path, std::uint64_t max_bytes, Code code) {
  return read_all(open(path, O_RDONLY | O_NONBLOCK, code), max_bytes, code, path);
}

std::string read_all(const Fd& fd, std::uint64_t max_bytes, Code code, const Path& path) {
  struct stat info {};
  if (disk().fstat(fd.get(), &info) != 0) fail(code, "stat", path, errno);
  if (!S_ISREG(info.st_mode)) throw Error(code, "'", path.string(), "' is not a regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > max_bytes) {
    throw Error(code, "'", path.string(), "' has ", size, " bytes; at most ", max_bytes,
                " are accepted here");
  }
  std::string text(size, '\0');
  read_at(fd, 0, std::as_writable_bytes(std::span(text)), code, path);
  return text;
}

namespace {

bool is(const Path& path, mode_t kind) {
  struct stat info {};
  return disk().lstat(path.c_str(), &info) == 0 && (info.st_mode & S_IFMT) == kind;
}

/// Follows links, because run.dir may be one.
bool is_folder(const Path& path) {
  return is(path / ".", S_IFDIR);
}

/// Creates `path` and its missing parents. Errors name `wanted`.
void make_folder(const Path& path, const Path& wanted, Code code) {
  struct stat info {};
  const int error = disk().lstat((path / ".").c_str(), &info) == 0 ? 0 : errno;
  if (error == 0 && S_ISDIR(info.st_mode)) return;
  const auto refuse = [&](const std::string& why) {
    throw Error(code, "cannot create folder '", wanted.string(), "': ", why);
  };
  if (is(path, S_IFREG)) refuse(str("'", path.string(), "' is a file"));
  const Path above = path.has_parent_path() ? path.parent_path() : Path(".");
  const bool goes_on = error == 0 || error == ENOENT || error == ENOTDIR;
  if (above == path || !goes_on) refuse(reason(error));
  if (is(path, S_IFLNK)) refuse(str("'", path.string(), "' is a symbolic link that leads to no folder"));
  make_folder(above, wanted, code);
  // EEXIST: another rank may have created it first.
  if (disk().mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) refuse(reason(errno));
  if (!is_folder(path)) refuse("a file of that name is in the way");
  // Durable files inside are lost if a loss of power removes the folder's name from its parent.
  fsync_directory(above, code);
}

}  // namespace

void make_directories(const Path& path, Code code) {
  make_folder(path.has_filename() ? path : path.parent_path(), path, code);
}

std::vector<Path> list_folder(const Path& folder, Code code) {
  std::vector<std::string> names;
  if (disk().list(folder.c_str(), names) != 0) fail(code, "list folder", folder, errno);
  std::ranges::sort(names);
  return mapped(names, [&](const std::string& name) { return folder / name; });
}

void rename(const Path& from, const Path& to, Code code) {
  if (disk().rename(from.c_str(), to.c_str()) != 0)
    throw Error(code, "cannot rename '", from.string(), "' to '", to.string(), "': ", reason(errno));
}

void remove_tree(const Path& path, Code code) {
  if (!is(path, S_IFDIR)) {
    if (disk().unlink(path.c_str()) != 0 && errno != ENOENT) fail(code, "remove", path, errno);
    return;
  }
  {
    // Through a handle: the folder may be swapped for a link to another one meanwhile.
    const Fd folder(disk().open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0));
    if (!folder.valid() && errno == ENOENT) return;
    if (!folder.valid()) fail(code, "list folder", path, errno);
    const PinnedHere pinned(path, folder);
    for (const Path& entry : list_folder(path / ".", code)) remove_tree(path / entry.filename(), code);
  }
  if (disk().rmdir(path.c_str()) != 0 && errno != ENOENT) fail(code, "remove folder", path, errno);
}

NewFolder::NewFolder(const Path& begin, Code code) {
  std::string name = begin.string() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) fail(code, "make a folder that begins with", begin, errno);
  path_ = name;
}

NewFolder::~NewFolder() {
  if (kept_) return;
  try {
    remove_tree(path_, Code::kEnvironment);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): what is left harms nobody
  }
}

std::string process_file(long pid, const char* name) {
  const std::ifstream file(str("/proc/", pid, "/", name), std::ios::binary);
  std::ostringstream text;
  // Not with istreambuf_iterator, which throws if the process ends between open and read.
  if (file) text << file.rdbuf();
  return text.str();
}

}  // namespace echelon::fs
