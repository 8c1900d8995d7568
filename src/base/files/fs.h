#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/not_copied.h"

/// File operations whose errors name the path and the system's reason; publishing is atomic and durable.
namespace echelon::fs {

using Path = std::filesystem::path;

/// Owns one file descriptor. Move-only; the destructor closes silently, close() reports.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd();
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  /// Closes; throws Error(code) naming `path` when the system reports a late write error.
  void close(Code code, const Path& path);

 private:
  int fd_ = -1;
};

/// open(2) with O_CLOEXEC. Throws Error(code) "cannot open 'path' ...: reason".
[[nodiscard]] Fd open(const Path& path, int flags, Code code, unsigned mode = 0644);

/// Writes/reads all of `bytes` at `offset`; loops over short transfers and EINTR. A read past the end throws.
void write_at(const Fd& fd, std::uint64_t offset, std::span<const std::byte> bytes, Code code,
              const Path& path);
void read_at(const Fd& fd, std::uint64_t offset, std::span<std::byte> bytes, Code code, const Path& path);

void fsync(const Fd& fd, Code code, const Path& path);
/// Makes a rename or unlink inside `directory` durable.
void fsync_directory(const Path& directory, Code code);

/// Whole small file. Refuses anything that is not a regular file or is larger than `max_bytes`.
[[nodiscard]] std::string read_file(const Path& path, std::uint64_t max_bytes, Code code);
/// Reads an open file whole; more than `max_bytes` is an error.
[[nodiscard]] std::string read_all(const Fd& fd, std::uint64_t max_bytes, Code code, const Path& path);

/// mkdir -p, durable when it returns, with a clear error (not a directory, no permission, read-only ...).
/// Only the user can write to new folders, whatever the umask.
void make_directories(const Path& path, Code code);

/// Entries of a folder, sorted by name. Throws Error(code) when it cannot be read.
[[nodiscard]] std::vector<Path> list_folder(const Path& folder, Code code);

/// Throws Error(code) naming both.
void rename(const Path& from, const Path& to, Code code);

/// Removes a file, or a folder with everything in it, without following links, also not one that takes the
/// place of a folder meanwhile. A missing entry is no error. Throws Error(code) naming the first entry that
/// cannot be removed.
void remove_tree(const Path& path, Code code);

/// A new folder that only this user can enter. The destructor removes it with its contents, unless keep() was
/// called; what cannot be removed stays.
class NewFolder : NotCopied {
 public:
  /// `begin`: its path but for the end, which makes it unique. Throws Error(code).
  NewFolder(const Path& begin, Code code);
  ~NewFolder();
  [[nodiscard]] const Path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  Path path_;
  bool kept_ = false;
};

/// Content of /proc/<pid>/<name>; empty when there is no such process, or it ends at this very moment.
[[nodiscard]] std::string process_file(long pid, const char* name);

/// "No such file or directory" etc. of an errno value.
[[nodiscard]] std::string reason(int errno_value);

/// The error "cannot <doing> 'path': reason". Error::is_of_system(), unless `errno_value` says what is there:
/// no entry, or one of the wrong kind.
[[nodiscard]] Error system_error(Code code, std::string_view doing, const Path& path, int errno_value);

}  // namespace echelon::fs
